import type { AssistantError } from "../../assistant-error.ts";

/** How to speak of the one who answers: what went wrong there, in words that tell what to do. */
export interface ResponseErrors {
  /** What came is not of the convention; `what` says what of it, without quoting it. */
  malformedResponse(what: string, cause?: unknown): AssistantError;
  /** What the answer itself says went wrong: the value of its `error`. */
  fromEnvelope(envelope: unknown): AssistantError;
}

/** JSON that another process wrote, of which `what` is said where it is none. */
export function parseJson(text: string, what: string, errors: ResponseErrors): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw errors.malformedResponse(what, error);
  }
}
