import { AssistantError } from "../../assistant-error.ts";

const SHOWN_MAX = 200;

/**
 * Throws AssistantError `unsupported_schema` for a keyword that cannot be enforced. `pointer` is the
 * keyword's JSON Pointer in the client's schema as a fragment: `#/properties/a/contains`.
 */
export function refuseKeyword(keyword: string, pointer: string, why: string): never {
  throw new AssistantError(
    "unsupported_schema",
    `The schema cannot be enforced: "${shorten(keyword)}" at ${shorten(pointer)} ${why}`,
  );
}

/** Appends segments to a JSON Pointer. */
export function extendPointer(pointer: string, ...steps: readonly (string | number)[]): string {
  let result = pointer;
  for (const step of steps) {
    const text = String(step);
    result += `/${/[~/]/.test(text) ? text.replaceAll("~", "~0").replaceAll("/", "~1") : text}`;
  }
  return result;
}

function shorten(text: string): string {
  return text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX)}…`;
}
