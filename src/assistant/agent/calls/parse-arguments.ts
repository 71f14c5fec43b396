import { canonicalJson } from "../../../base/canonical-json.ts";
import { getErrorMessage } from "../../../base/errors.ts";
import { isObject } from "../../../base/json.ts";
import {
  InvalidJsonError,
  parseStrictJson,
  type StrictJsonOptions,
} from "../../../base/strict-json.ts";
import { pointerBelow } from "../manifests/json-pointer.ts";
import type { JsonObject } from "../port.ts";

const BYTES_MAX = 1024 * 1024;

const rules: StrictJsonOptions = {
  depthMax: 32,
  forbiddenKeys: new Set(["__proto__"]),
  subject: "args_json",
};

export interface ParsedArguments {
  readonly args: JsonObject;
  /** The arguments as canonical JSON, the same text for the user, the journal, the ledger and the app. */
  readonly text: string;
}

/**
 * Parses the arguments from a caller and returns a one-line reason if they are invalid. JSON that different parsers
 * read differently is refused: duplicate keys, `__proto__`, and integers that a double cannot hold.
 */
export function parseArguments(json: string): ParsedArguments | string {
  if (Buffer.byteLength(json) > BYTES_MAX)
    return `the arguments are larger than ${BYTES_MAX / 1024} KiB`;
  let value: unknown;
  try {
    value = parseStrictJson(Buffer.from(json), rules);
  } catch (error) {
    if (error instanceof InvalidJsonError) return error.message;
    return `the arguments cannot be read: ${getErrorMessage(error)}`;
  }
  if (!isObject(value)) return "the arguments must be a JSON object";
  const unsafe = findUnsafeNumber(value);
  if (unsafe !== undefined)
    return `the number at ${unsafe || "the top"} is too large for all JSON parsers to read exactly; send it as a string`;
  return { args: value, text: canonicalJson(value) };
}

/** Returns the JSON Pointer of the first number that may have lost precision; undefined if there is none. */
export function findUnsafeNumber(value: unknown, pointer = ""): string | undefined {
  if (typeof value === "number") {
    const isSafe = Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
    return isSafe ? undefined : pointer;
  }
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const found = findUnsafeNumber(item, pointerBelow(pointer, key));
    if (found !== undefined) return found;
  }
  return undefined;
}
