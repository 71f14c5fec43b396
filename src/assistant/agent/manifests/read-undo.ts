import { getOwn, isObject } from "../../../base/json.ts";
import type { UndoDeclaration, UndoExpression } from "../tool-manifest.ts";
import { pointerBelow } from "./json-pointer.ts";
import { describeValue, type FaultCollector, warnAboutUnknownFields } from "./manifest-faults.ts";
import { toolNamePattern, undoExpressionPattern, undoFields } from "./manifest-format.ts";

/** Reads the `undo` of a declaration; undefined if it is missing or invalid. */
export function readUndo(
  value: unknown,
  pointer: string,
  faults: FaultCollector,
): UndoDeclaration | undefined {
  if (value === undefined) return undefined;
  if (!isObject(value)) {
    faults.error(pointer, `must be an object with "tool" and "map", not ${describeValue(value)}`);
    return undefined;
  }
  warnAboutUnknownFields(value, undoFields, pointer, faults);
  const tool = getOwn(value, "tool");
  if (typeof tool !== "string" || !toolNamePattern.test(tool)) {
    faults.error(
      pointerBelow(pointer, "tool"),
      `must be the name of a tool of this app, not ${describeValue(tool)}`,
    );
    return undefined;
  }
  const map = readMap(getOwn(value, "map"), pointerBelow(pointer, "map"), faults);
  return map && { tool, map };
}

function readMap(
  value: unknown,
  pointer: string,
  faults: FaultCollector,
): ReadonlyMap<string, UndoExpression> | undefined {
  if (value === undefined) return new Map();
  if (!isObject(value)) {
    faults.error(
      pointer,
      `must be an object that maps arguments to expressions, not ${describeValue(value)}`,
    );
    return undefined;
  }
  const map = new Map<string, UndoExpression>();
  const before = faults.errorCount;
  for (const [argument, text] of Object.entries(value)) {
    const expression = typeof text === "string" ? parseUndoExpression(text) : undefined;
    if (expression) map.set(argument, expression);
    else {
      faults.error(
        pointerBelow(pointer, argument),
        `must be "$input.<field>" or "$result.<field>", with further fields after dots, not ${describeValue(text)}`,
      );
    }
  }
  return faults.errorCount === before ? map : undefined;
}

function parseUndoExpression(text: string): UndoExpression | undefined {
  const match = undoExpressionPattern.exec(text);
  if (!match?.[2]) return undefined;
  return { from: match[1] === "input" ? "input" : "result", fields: match[2].slice(1).split(".") };
}
