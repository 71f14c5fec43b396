import { canonicalJson } from "../../../base/canonical-json.ts";
import { isObject } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import type { UndoDeclaration, UndoExpression } from "../tool-manifest.ts";
import { findAmbiguousValue } from "./parse-arguments.ts";

/** The call that reverts an executed call. Its arguments are fixed when the reverted call is executed. */
export interface Compensation {
  readonly tool: string;
  readonly args: JsonObject;
  /** `args` as canonical JSON text. */
  readonly argsText: string;
}

/**
 * Computes the arguments of a compensation from the call and its result, as the undo declaration maps them. Returns a
 * one-line reason if that is not possible.
 */
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
    // A value that cannot be represented exactly is refused: as the id of a note, for example, it could name another
    // note, which the compensation would delete instead.
    if (findAmbiguousValue(value) !== undefined)
      return `${text} has a value that JSON parsers read differently`;
    Object.defineProperty(args, name, { value, enumerable: true });
  }
  const argsText = canonicalJson(args);
  // The result may contain any value, so it is serialised and parsed to drop what JSON cannot hold.
  const parsed: unknown = JSON.parse(argsText);
  return isObject(parsed)
    ? { tool: undo.tool, args: parsed, argsText }
    : "the arguments of the undo are not a JSON object";
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
