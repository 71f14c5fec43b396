import { BerthError, getErrorMessage } from "../../base/errors.ts";
import type { ModelReconcileState } from "../../resources/model-status.ts";
import { reconcileBackoffMs } from "../reconcile-backoff.ts";

/** Errors that stop retries after a number of attempts, until the user edits the spec or requests a retry. */
const terminalFailures: Readonly<
  Record<string, { readonly reason: string; readonly tries: number }>
> = {
  hub_denied: { reason: "SourceDenied", tries: 1 },
  hub_not_found: { reason: "SourceNotFound", tries: 1 },
  invalid_spec: { reason: "SourceAmbiguous", tries: 1 },
  // The next download may succeed if the network or a proxy damaged the file.
  digest_mismatch: { reason: "DigestMismatch", tries: 3 },
  model_unusable: { reason: "ModelUnusable", tries: 1 },
  // The inference engine crashed while the assistant loaded the file.
  engine_error: { reason: "LoadFailed", tries: 5 },
};

const transientReasons: Readonly<Record<string, string>> = {
  hub_unreachable: "SourceUnreachable",
  disk_full: "DiskFull",
  insufficient_memory: "InsufficientMemory",
  assistant_unreachable: "AssistantUnreachable",
  digest_mismatch: "DigestMismatch",
  engine_error: "LoadFailed",
};

/** The longest delay that a hub can request, in milliseconds: a hub may be wrong or malicious. */
export const RETRY_MAX_MS = 60 * 60_000;

/**
 * Returns a Model's reconcile state after a failed step. The state contains the time of the next attempt, or `stalled`
 * if Berth does not retry the step.
 */
export function recordStepFailure(
  error: unknown,
  step: string,
  memory: ModelReconcileState,
  context: { readonly inputs: string; readonly nowMs: number; readonly random: () => number },
): ModelReconcileState {
  const count = (memory.failure?.step === step ? memory.failure.count : 0) + 1;
  const message =
    error instanceof BerthError
      ? [error.message, error.hint].filter(Boolean).join("; ")
      : "an internal error; see Berth's log";
  const code = error instanceof BerthError ? error.code : "internal";
  const end = terminalFailures[code];
  if (end && count >= end.tries) {
    const stalled = { inputs: context.inputs, reason: end.reason, message };
    return { ...memory, failure: null, stalled };
  }
  // A shorter Retry-After than Berth's own back-off is ignored.
  const delayMs = Math.min(
    Math.max(getRetryAfterMs(error) ?? 0, reconcileBackoffMs(count - 1, context.random)),
    RETRY_MAX_MS,
  );
  return {
    ...memory,
    failure: {
      inputs: context.inputs,
      step,
      count,
      reason: transientReasons[code] ?? "WillRetry",
      message: /tries? again|tried again|will retry/.test(message)
        ? message
        : `${message}; Berth will retry`,
      retryAt: context.nowMs + delayMs,
    },
  };
}

function getRetryAfterMs(error: unknown): number | undefined {
  if (!(error instanceof BerthError)) return undefined;
  const { details } = error;
  if (typeof details !== "object" || details === null || !("retryAfterMs" in details))
    return undefined;
  return typeof details.retryAfterMs === "number" ? details.retryAfterMs : undefined;
}

export function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(getErrorMessage(error));
}
