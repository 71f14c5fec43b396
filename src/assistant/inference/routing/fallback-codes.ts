import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";

/** Errors of one model that another model may not have. */
const fallbackCodes: ReadonlySet<AssistantErrorCode> = new Set([
  "unreachable",
  "rate_limited",
  "provider_failed",
  "timeout",
  "no_model",
  "model_not_found",
  "model_unusable",
  "insufficient_memory",
  "queue_full",
  "engine_failed",
]);

/**
 * Returns the error's code if the next model of an alias may be tried. Undefined for errors that the next model would
 * have as well: an invalid request, missing consent or settings that the user must fix, and a caller that has aborted.
 */
export function getFallbackCode(error: unknown): AssistantErrorCode | undefined {
  return error instanceof AssistantError && fallbackCodes.has(error.code) ? error.code : undefined;
}
