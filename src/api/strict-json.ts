import { BerthError } from "../base/errors.ts";
import { DEPTH_MAX, forbiddenKeys } from "../resources/plain-value.ts";

/**
 * JSON of a request body. Beyond what JSON.parse refuses, it refuses bytes that are not UTF-8, a key
 * that stands twice in one object (of which JSON.parse would silently take the last), keys that
 * reach a prototype, and nesting that no body of ours needs. Returns undefined for an empty body;
 * throws BerthError `invalid_request`.
 */
export function parseStrictJson(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  const text = decode(body);
  if (text.trim() === "") return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new BerthError("invalid_request", `the body is not JSON: ${reasonOf(error)}`);
  }
  checkKeys(text);
  return value;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function decode(body: Buffer): string {
  try {
    return decoder.decode(body);
  } catch {
    throw new BerthError("invalid_request", "the body is not UTF-8");
  }
}

/** V8 quotes the text around the fault, which may be a secret. The position is enough. */
function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : "";
  const place = /at position (\d+)(?: \(line (\d+) column (\d+)\))?/.exec(message);
  if (place?.[2] !== undefined) return `line ${place[2]}, column ${place[3]}`;
  if (place?.[1] !== undefined) return `at character ${Number(place[1]) + 1}`;
  return "it ends too early or holds something else";
}

/** Walks over text that JSON.parse has accepted, so that only strings and brackets matter. */
function checkKeys(text: string): void {
  /** One set of keys for each open object, null for each open array. */
  const open: (Set<string> | null)[] = [];
  let expectsKey = false;
  for (let index = 0; index < text.length; index += 1) {
    switch (text.charCodeAt(index)) {
      case 0x7b: // {
        open.push(new Set());
        expectsKey = true;
        checkDepth(open.length);
        break;
      case 0x5b: // [
        open.push(null);
        expectsKey = false;
        checkDepth(open.length);
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
        const end = endOfString(text, index);
        const keys = open.at(-1);
        if (expectsKey && keys) checkKey(keys, JSON.parse(text.slice(index, end + 1)));
        expectsKey = false;
        index = end;
        break;
      }
      default:
        break;
    }
  }
}

function checkKey(keys: Set<string>, key: string): void {
  const shown = JSON.stringify(key.slice(0, 80));
  if (keys.has(key)) {
    throw new BerthError("invalid_request", `the key ${shown} stands twice in one object`);
  }
  if (forbiddenKeys.has(key)) {
    throw new BerthError("invalid_request", `the key ${shown} is not allowed`);
  }
  keys.add(key);
}

function checkDepth(depth: number): void {
  if (depth > DEPTH_MAX) {
    throw new BerthError("invalid_request", `the body is nested deeper than ${DEPTH_MAX} levels`);
  }
}

function endOfString(text: string, start: number): number {
  for (let index = start + 1; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === 0x5c) index += 1;
    else if (code === 0x22) return index;
  }
  return text.length;
}
