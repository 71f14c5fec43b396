import { findExceededBound, findStringEnd, type JsonBounds } from "./json-bounds.ts";

/**
 * Thrown if a text is not the expected JSON. The message explains why without quoting the text, which may contain a
 * secret or a prompt.
 */
export class InvalidJsonError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "JsonFault";
  }
}

export interface StrictJsonOptions {
  /** The greatest allowed nesting of objects and arrays. */
  readonly depthMax: number;
  /** Keys that are refused in every object. */
  readonly forbiddenKeys: ReadonlySet<string>;
  /** The name of the text in messages, such as "the file"; default: "the body". */
  readonly subject?: string;
}

/**
 * The limits for every text. They are far above what a request or a file needs, and a text within them is parsed
 * in a tenth of a second.
 */
const KEYS_MAX = 100_000;
const CONTAINERS_MAX = 100_000;

/**
 * Parses untrusted JSON. In addition to what JSON.parse refuses, it refuses bytes that are not UTF-8, duplicate keys
 * in one object (of which JSON.parse would silently keep the last), forbidden keys, deep nesting, and large numbers of
 * objects, arrays or keys, because parsing those would block the process. Returns undefined for an empty body. Throws
 * InvalidJsonError.
 */
export function parseStrictJson(body: Uint8Array, rules: StrictJsonOptions): unknown {
  if (body.length === 0) return undefined;
  const subject = rules.subject ?? "the body";
  const text = decode(body, subject);
  if (text.trim() === "") return undefined;
  checkBounds(text, rules, subject);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new InvalidJsonError(`${subject} is not JSON: ${describeJsonError(error)}`);
  }
  checkKeys(text, rules);
  return value;
}

function checkBounds(text: string, { depthMax }: StrictJsonOptions, subject: string): void {
  const messages: Readonly<Record<keyof JsonBounds, string>> = {
    depthMax: `is nested deeper than ${depthMax} levels`,
    keysMax: `has more than ${KEYS_MAX} keys`,
    containersMax: `has more than ${CONTAINERS_MAX} objects and arrays`,
  };
  const bounds = { depthMax, keysMax: KEYS_MAX, containersMax: CONTAINERS_MAX };
  const exceeded = findExceededBound(text, bounds);
  if (exceeded) throw new InvalidJsonError(`${subject} ${messages[exceeded]}`);
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function decode(body: Uint8Array, subject: string): string {
  try {
    return decoder.decode(body);
  } catch {
    throw new InvalidJsonError(`${subject} is not UTF-8`);
  }
}

/**
 * Returns the position where `JSON.parse` failed. Unlike V8's message, the result does not quote the text at that
 * position.
 */
export function describeJsonError(error: unknown): string {
  const message = error instanceof Error ? error.message : "";
  const place = /\(line (\d+) column (\d+)\)/.exec(message);
  if (place) return `line ${place[1]}, column ${place[2]}`;
  return "the JSON is incomplete or has invalid syntax";
}

/**
 * Throws InvalidJsonError if the text has duplicate or forbidden keys. JSON.parse has accepted the text
 * before, so a scan for strings and brackets is enough.
 */
function checkKeys(text: string, rules: StrictJsonOptions): void {
  /** The open objects and arrays, outermost first: a set of keys for each object, null for each array. */
  const open: (Set<string> | null)[] = [];
  let expectsKey = false;
  for (let index = 0; index < text.length; index += 1) {
    switch (text.charCodeAt(index)) {
      case 0x7b: // {
        open.push(new Set());
        expectsKey = true;
        break;
      case 0x5b: // [
        open.push(null);
        expectsKey = false;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        open.pop();
        expectsKey = false;
        break;
      case 0x2c: // ,
        expectsKey = open.at(-1) !== null;
        break;
      case 0x22: {
        const end = findStringEnd(text, index);
        const keys = open.at(-1);
        if (expectsKey && keys) checkKey(keys, decodeString(text, index, end), rules);
        expectsKey = false;
        index = end;
        break;
      }
      default:
        break;
    }
  }
}

function checkKey(keys: Set<string>, key: string, rules: StrictJsonOptions): void {
  if (keys.has(key))
    throw new InvalidJsonError(`the key ${quoteKey(key)} occurs twice in one object`);
  if (rules.forbiddenKeys.has(key))
    throw new InvalidJsonError(`the key ${quoteKey(key)} is not allowed`);
  keys.add(key);
}

function quoteKey(key: string): string {
  return JSON.stringify(key.slice(0, 80));
}

function decodeString(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end);
  return raw.includes("\\") ? String(JSON.parse(`"${raw}"`)) : raw;
}
