import type { AssistantError } from "../../errors.ts";

/** How to speak of the one who answers: what went wrong there, in words that tell what to do. */
export interface WireWords {
  /** What came is not of the convention; `what` says what of it, without quoting it. */
  notUnderstood(what: string, cause?: unknown): AssistantError;
  /** What the answer itself says went wrong: the value of its `error`. */
  errorOf(envelope: unknown): AssistantError;
}

/** JSON that another process wrote, of which `what` is said where it is none. */
export function parsedJson(text: string, what: string, words: WireWords): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw words.notUnderstood(what, error);
  }
}
