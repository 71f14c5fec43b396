import { suggestion } from "../../../base/nearest.ts";
import type { ToolDeclaration, UndoDeclaration, UndoExpression } from "../manifest.ts";
import type { JsonObject } from "../port.ts";
import { type Faults, isObject, own, quoted } from "./faults.ts";
import { pointerBelow } from "./json-pointer.ts";
import { fieldsOf, lookUp } from "./schema-fields.ts";
import { typesOf } from "./schema-keywords.ts";

/**
 * Whether the compensation of `tool` can be called with what its map gives. Two tools may undo each other
 * (archive, unarchive): a compensation is not put on the list of what can be undone.
 */
export function checkUndo(
  tool: ToolDeclaration,
  undo: UndoDeclaration,
  tools: ReadonlyMap<string, ToolDeclaration>,
  pointer: string,
  faults: Faults,
): void {
  const at = pointerBelow(pointer, "tool");
  const compensation = tools.get(undo.tool);
  if (compensation === undefined) {
    const near = suggestion(undo.tool, tools.keys());
    faults.error(at, `this app has no tool ${quoted(undo.tool)}${near}`);
    return;
  }
  if (undo.tool === tool.name) {
    faults.error(at, "a tool cannot be undone by calling it again");
    return;
  }
  if (tool.tier === "read") faults.warning(pointer, "a tool that only reads has nothing to undo");
  if (compensation.tier === "read") {
    faults.warning(at, `${quoted(undo.tool)} only reads: it takes nothing back`);
  }
  checkArguments(undo, compensation, pointerBelow(pointer, "map"), faults);
  for (const [argument, expression] of undo.map) {
    if (expression.from === "result") continue;
    const place = pointerBelow(pointer, "map", argument);
    checkInput({ argument, expression, tool, compensation }, place, faults);
  }
}

function checkArguments(
  undo: UndoDeclaration,
  compensation: ToolDeclaration,
  pointer: string,
  faults: Faults,
): void {
  const taken = fieldsOf(compensation.inputSchema, compensation.inputSchema);
  for (const argument of undo.map.keys()) {
    if (taken.has(argument)) continue;
    faults.error(
      pointerBelow(pointer, argument),
      `${quoted(undo.tool)} has no argument ${quoted(argument)}${suggestion(argument, taken.keys())}`,
    );
  }
  for (const name of requiredOf(compensation.inputSchema)) {
    if (undo.map.has(name)) continue;
    faults.error(pointer, `does not give ${quoted(name)}, which ${quoted(undo.tool)} requires`);
  }
}

interface Mapped {
  readonly argument: string;
  readonly expression: UndoExpression;
  readonly tool: ToolDeclaration;
  readonly compensation: ToolDeclaration;
}

function checkInput(mapped: Mapped, pointer: string, faults: Faults): void {
  const { argument, expression, tool, compensation } = mapped;
  const found = lookUp(tool.inputSchema, expression.fields);
  const shown = quoted(["$input", ...expression.fields].join("."));
  if (found.state === "absent") {
    const near = suggestion(found.field, found.known);
    faults.error(pointer, `${shown}: the input schema has no ${quoted(found.field)}${near}`);
    return;
  }
  if (found.state === "open") {
    faults.warning(
      pointer,
      `${shown}: the input schema does not say whether there is such a field`,
    );
    return;
  }
  const target = fieldsOf(compensation.inputSchema, compensation.inputSchema).get(argument);
  if (!fits(found.schema, target)) {
    faults.error(
      pointer,
      `${shown} is of another type than ${quoted(argument)} of ${quoted(compensation.name)}`,
    );
  } else if (!found.isRequired && requiredOf(compensation.inputSchema).includes(argument)) {
    faults.warning(
      pointer,
      `${shown} may be left out, and a call without it cannot be undone: ${quoted(compensation.name)} requires ${quoted(argument)}`,
    );
  }
}

/** False only where both name their types and have none in common. */
function fits(source: unknown, target: unknown): boolean {
  if (!isObject(source) || !isObject(target)) return true;
  const [given, taken] = [typesOf(source), typesOf(target)];
  if (given.length === 0 || taken.length === 0) return true;
  return given.some((type) => taken.includes(type) || (isNumeric(type) && taken.some(isNumeric)));
}

function isNumeric(type: string): boolean {
  return type === "integer" || type === "number";
}

function requiredOf(schema: JsonObject): readonly string[] {
  const required = own(schema, "required");
  if (!Array.isArray(required)) return [];
  return required.filter((name): name is string => typeof name === "string");
}
