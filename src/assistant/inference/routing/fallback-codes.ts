import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";

/** What a model that was asked cannot do now, and another one may. */
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
 * Undefined for what the next model would be wrong for too: what the request itself is refused for, what a
 * person has not allowed or has to put right, and a caller that wants no answer any more.
 */
export function getFallbackCode(error: unknown): AssistantErrorCode | undefined {
  return error instanceof AssistantError && fallbackCodes.has(error.code) ? error.code : undefined;
}
