import { getOwn, isObject } from "../../../base/json.ts";
import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { JsonObject } from "../port.ts";
import type { ToolDeclaration, UndoDeclaration, UndoExpression } from "../tool-manifest.ts";
import { getTypes } from "./input-schema-keywords.ts";
import { pointerBelow } from "./json-pointer.ts";
import { type FaultCollector, quoteValue } from "./manifest-faults.ts";
import { collectProperties, findField } from "./schema-properties.ts";

/**
 * Checks that the compensation of `tool` accepts the arguments that `undo` takes from the call and its result. Two
 * tools, such as archive and unarchive, may name each other as compensation: that causes no endless loop, because a
 * compensation itself cannot be undone.
 */
export function checkUndo(
  tool: ToolDeclaration,
  undo: UndoDeclaration,
  tools: ReadonlyMap<string, ToolDeclaration>,
  pointer: string,
  faults: FaultCollector,
): void {
  const at = pointerBelow(pointer, "tool");
  const compensation = tools.get(undo.tool);
  if (compensation === undefined) {
    const near = formatSuggestion(undo.tool, tools.keys());
    faults.error(at, `this app has no tool ${quoteValue(undo.tool)}${near}`);
    return;
  }
  if (undo.tool === tool.name) {
    faults.error(at, "a tool cannot be undone by calling it again");
    return;
  }
  if (tool.tier === "read") faults.warning(pointer, "a tool that only reads has nothing to undo");
  if (compensation.tier === "read") {
    faults.warning(at, `${quoteValue(undo.tool)} only reads, so it cannot undo anything`);
  }
  checkArguments(undo, compensation, pointerBelow(pointer, "map"), faults);
  for (const [argument, expression] of undo.map) {
    if (expression.from === "result") continue;
    const argumentPointer = pointerBelow(pointer, "map", argument);
    checkInput({ argument, expression, tool, compensation }, argumentPointer, faults);
  }
}

function checkArguments(
  undo: UndoDeclaration,
  compensation: ToolDeclaration,
  pointer: string,
  faults: FaultCollector,
): void {
  const accepted = collectProperties(compensation.inputSchema, compensation.inputSchema);
  for (const argument of undo.map.keys()) {
    if (accepted.has(argument)) continue;
    faults.error(
      pointerBelow(pointer, argument),
      `${quoteValue(undo.tool)} has no argument ${quoteValue(argument)}${formatSuggestion(argument, accepted.keys())}`,
    );
  }
  for (const name of getRequired(compensation.inputSchema)) {
    if (undo.map.has(name)) continue;
    faults.error(
      pointer,
      `does not provide ${quoteValue(name)}, which ${quoteValue(undo.tool)} requires`,
    );
  }
}

interface MappedArgument {
  readonly argument: string;
  readonly expression: UndoExpression;
  readonly tool: ToolDeclaration;
  readonly compensation: ToolDeclaration;
}

function checkInput(mapped: MappedArgument, pointer: string, faults: FaultCollector): void {
  const { argument, expression, tool, compensation } = mapped;
  const found = findField(tool.inputSchema, expression.fields);
  const shown = quoteValue(["$input", ...expression.fields].join("."));
  if (found.state === "absent") {
    const near = formatSuggestion(found.field, found.known);
    faults.error(pointer, `${shown}: the input schema has no ${quoteValue(found.field)}${near}`);
    return;
  }
  if (found.state === "open") {
    faults.warning(pointer, `${shown}: the input schema does not say if there is such a field`);
    return;
  }
  const target = collectProperties(compensation.inputSchema, compensation.inputSchema).get(
    argument,
  );
  if (!areCompatible(found.schema, target)) {
    faults.error(
      pointer,
      `${shown} has another type than ${quoteValue(argument)} of ${quoteValue(compensation.name)}`,
    );
  } else if (!found.isRequired && getRequired(compensation.inputSchema).includes(argument)) {
    faults.warning(
      pointer,
      `${shown} is optional, and a call without it cannot be undone: ${quoteValue(compensation.name)} requires ${quoteValue(argument)}`,
    );
  }
}

/** Returns false only if both schemas name their types and have no type in common. */
function areCompatible(source: unknown, target: unknown): boolean {
  if (!isObject(source) || !isObject(target)) return true;
  const [given, accepted] = [getTypes(source), getTypes(target)];
  if (given.length === 0 || accepted.length === 0) return true;
  return given.some(
    (type) => accepted.includes(type) || (isNumeric(type) && accepted.some(isNumeric)),
  );
}

function isNumeric(type: string): boolean {
  return type === "integer" || type === "number";
}

function getRequired(schema: JsonObject): readonly string[] {
  const required = getOwn(schema, "required");
  if (!Array.isArray(required)) return [];
  return required.filter((name): name is string => typeof name === "string");
}
