import { canonicalJson } from "../../../base/canonical-json.ts";
import type { JsonObject } from "../port.ts";
import type { UndoDeclaration, UndoExpression } from "../tool-manifest.ts";
import { findUnsafeNumber, isJsonObject } from "./parse-arguments.ts";

/** The call that takes another one back; its arguments are fixed when that one was executed. */
export interface Compensation {
  readonly tool: string;
  readonly args: JsonObject;
  /** `args` as canonical JSON. */
  readonly argsText: string;
}

/** Evaluates the mapping; a string says in one line why it cannot be. */
export function buildCompensation(
  undo: UndoDeclaration,
  input: JsonObject,
  result: JsonObject | undefined,
): Compensation | string {
  const args: Record<string, unknown> = {};
  for (const [name, expression] of undo.map) {
    const value = evaluateExpression(expression, input, result);
    const text = `$${expression.from}.${expression.fields.join(".")}`;
    if (value === undefined) return `the call has no ${text}`;
    // One digit less and it would be somebody else's note that is deleted.
    if (findUnsafeNumber(value) !== undefined)
      return `${text} is a number that JSON readers do not agree on`;
    Object.defineProperty(args, name, { value, enumerable: true });
  }
  const argsText = canonicalJson(args);
  // The app's result may be anything; what is kept is what the text says.
  const parsed: unknown = JSON.parse(argsText);
  return isJsonObject(parsed) ? { tool: undo.tool, args: parsed, argsText } : "it is no object";
}

function evaluateExpression(
  { from, fields }: UndoExpression,
  input: JsonObject,
  result: JsonObject | undefined,
): unknown {
  let value: unknown = from === "input" ? input : result;
  for (const field of fields) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, field))
      return undefined;
    value = Reflect.get(value, field);
  }
  return value;
}
