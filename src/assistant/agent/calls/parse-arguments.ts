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
 * read differently is refused: duplicate keys, `__proto__`, integers that a double cannot hold, and halves of surrogate
 * pairs.
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
  const ambiguous = findAmbiguousValue(value);
  if (ambiguous !== undefined)
    return `the ${ambiguous.kind} at ${ambiguous.pointer || "the top"} ${problems[ambiguous.kind]}`;
  return { args: value, text: canonicalJson(value) };
}

const problems = {
  number: "is so large that some JSON parsers round it; send it as a string",
  text: "has half of a surrogate pair, which many JSON parsers refuse; send whole characters",
  object: "has a key with half of a surrogate pair, which many JSON parsers refuse",
};

interface AmbiguousValue {
  readonly kind: keyof typeof problems;
  /** JSON Pointer of the value. */
  readonly pointer: string;
}

/** The category Cs (surrogates). With the flag `u`, it matches only a surrogate that is not part of a pair. */
const halfOfPair = /\p{Cs}/u;

/** Returns the first value that JSON parsers read differently; undefined if there is none. */
export function findAmbiguousValue(value: unknown): AmbiguousValue | undefined {
  if (typeof value === "number") {
    const isSafe = Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
    return isSafe ? undefined : { kind: "number", pointer: "" };
  }
  if (typeof value === "string")
    return halfOfPair.test(value) ? { kind: "text", pointer: "" } : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    if (halfOfPair.test(key)) return { kind: "object", pointer: "" };
    const found = findAmbiguousValue(item);
    // The pointer is built only if it is needed, because the arguments can have half a million values.
    if (found) return { ...found, pointer: pointerBelow("", key) + found.pointer };
  }
  return undefined;
}
