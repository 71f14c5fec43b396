import { AssistantError } from "../assistant-error.ts";
import { DeniedError } from "./denied-error.ts";
import type { FinishedDetail, FinishedStatus, TurnCall } from "./port.ts";

/** The way in which a query ended: the status and the detail of Finished. */
export interface QueryEnd {
  readonly status: FinishedStatus;
  readonly detail: FinishedDetail;
}

/** The state of a query's answer so far. It is also reported for a query that fails or is cancelled. */
export interface QueryProgress {
  readonly usage: FinishedDetail["usage"];
  readonly finishReason: FinishedDetail["finish_reason"];
  readonly model: string | null;
  readonly calls: readonly TurnCall[];
  /** A note about what the answer lacks, such as tool calls; "" if it lacks nothing. */
  readonly note: string;
}

export function completedEnd(progress: QueryProgress): QueryEnd {
  return buildQueryEnd("completed", "ok", progress.note, progress);
}

export function cancelledEnd(
  code: "cancelled" | "shutting_down",
  message: string,
  progress: QueryProgress,
): QueryEnd {
  return buildQueryEnd("cancelled", code, message, progress);
}

/** Builds the QueryEnd of a query that ended with an error. */
export function failedEnd(error: unknown, progress: QueryProgress): QueryEnd {
  if (error instanceof DeniedError)
    return buildQueryEnd("denied", error.code, error.message, progress);
  return isExpectedError(error)
    ? buildQueryEnd("failed", error.code, error.message, progress)
    : buildQueryEnd(
        "failed",
        "internal",
        "an unexpected error occurred; see the companion's log",
        progress,
      );
}

/** Returns true if the error may be shown to the caller; other errors are logged. */
export function isExpectedError(error: unknown): error is AssistantError {
  return error instanceof AssistantError && error.code !== "internal";
}

function buildQueryEnd(
  status: FinishedStatus,
  code: string,
  message: string,
  progress: QueryProgress,
): QueryEnd {
  const { usage, finishReason, model, calls } = progress;
  return {
    status,
    detail: { v: 1, code, message, usage, finish_reason: finishReason, model, calls },
  };
}
