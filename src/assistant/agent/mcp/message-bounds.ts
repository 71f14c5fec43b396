import { findExceededBound } from "../../../base/json-bounds.ts";

/** Thrown for a JSON-RPC message that would take too long to process. */
export class MessageBoundsError extends Error {}

/**
 * Largest nesting depth of a message: deeper than any useful result, and far below the stack limit of recursive code.
 */
const DEPTH_MAX = 100;

/**
 * The maximum number of values outside of structuredContent; the values inside of structuredContent are not validated.
 * The SDK's schemas take about 10 µs per invalid value, so 4 MiB of zeros in place of content blocks would take half a
 * minute.
 */
const CHECKED_VALUES_MAX = 50_000;

/**
 * Lines shorter than this are not checked for nesting, because JSON.parse reads them within a few milliseconds at any
 * depth.
 */
const HARMLESS_CHARS = 64 * 1024;

/**
 * Throws MessageBoundsError for a line that is nested too deeply, before it is parsed: JSON.parse takes most of a
 * second for four megabytes of brackets, but this check takes a millisecond.
 */
export function checkNesting(line: string): void {
  if (line.length <= HARMLESS_CHARS) return;
  const bounds = { depthMax: DEPTH_MAX, keysMax: Infinity, containersMax: Infinity };
  if (findExceededBound(line, bounds)) throw tooDeepError();
}

/** Throws MessageBoundsError if a parsed message exceeds a limit. Does not use recursion. */
export function checkBounds(message: object, blocksMax: number): void {
  const result = "result" in message ? message.result : undefined;
  const free =
    isObject(result) && "structuredContent" in result ? result.structuredContent : undefined;
  const content = isObject(result) && "content" in result ? result.content : undefined;
  if (Array.isArray(content) && content.length > blocksMax) {
    throw new MessageBoundsError(`more than ${blocksMax} content blocks`);
  }
  let checked = 0;
  const open: { readonly value: object; readonly depth: number; readonly isFree: boolean }[] = [
    { value: message, depth: 1, isFree: false },
  ];
  for (let next = open.pop(); next; next = open.pop()) {
    if (next.depth > DEPTH_MAX) throw tooDeepError();
    for (const value of Object.values(next.value)) {
      const isFree = next.isFree || (value === free && free !== undefined);
      if (!isFree) checked += 1;
      if (checked > CHECKED_VALUES_MAX) {
        throw new MessageBoundsError(`more than ${CHECKED_VALUES_MAX} values`);
      }
      if (isObject(value)) open.push({ value, depth: next.depth + 1, isFree });
    }
  }
}

function tooDeepError(): MessageBoundsError {
  return new MessageBoundsError(`values nested more than ${DEPTH_MAX} levels deep`);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
