import { BerthError, getErrorMessage } from "../../base/errors.ts";
import type { ModelReconcileState } from "../../resources/model-status.ts";
import { reconcileBackoffMs } from "../reconcile-backoff.ts";

/** What comes again at each try, and after how many tries: then only a change, or a person, helps. */
const terminalFailures: Readonly<
  Record<string, { readonly reason: string; readonly tries: number }>
> = {
  hub_denied: { reason: "SourceDenied", tries: 1 },
  hub_not_found: { reason: "SourceNotFound", tries: 1 },
  invalid_spec: { reason: "SourceAmbiguous", tries: 1 },
  // A bad line, or a proxy's damaged copy, may be better the next time.
  digest_mismatch: { reason: "DigestMismatch", tries: 3 },
  model_unusable: { reason: "ModelUnusable", tries: 1 },
  // The engine crashed while it loaded the file.
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

/** The longest that a hub can have us wait, in milliseconds: it may be wrong, or mean no good. */
export const RETRY_MAX_MS = 60 * 60_000;

/** What the reconciler remembers of a step that went wrong: when to try again, or that it is of no use. */
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
      : "an error of Berth's own; see its log";
  const code = error instanceof BerthError ? error.code : "internal";
  const end = terminalFailures[code];
  if (end && count >= end.tries) {
    const stalled = { inputs: context.inputs, reason: end.reason, message };
    return { ...memory, failure: null, stalled };
  }
  // A hub that asks for less than our own back-off would be asked in circles.
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
      message: /tries? again|tried again/.test(message) ? message : `${message}; it is tried again`,
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
