import { AssistantError } from "../assistant-error.ts";
import { DeniedError } from "./denied-error.ts";
import type { FinishedDetail, FinishedStatus, TurnCall } from "./port.ts";

/** How a query ended: the status and the detail of Finished. */
export interface QueryEnd {
  readonly status: FinishedStatus;
  readonly detail: FinishedDetail;
}

/** What is known of a query's answer so far; told also of one that does not come to its end. */
export interface QueryProgress {
  readonly usage: FinishedDetail["usage"];
  readonly finishReason: FinishedDetail["finish_reason"];
  readonly model: string | null;
  readonly calls: readonly TurnCall[];
  /** What an answer had to do without; "" for nothing. */
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

/** What ended it from inside. */
export function failedEnd(error: unknown, progress: QueryProgress): QueryEnd {
  if (error instanceof DeniedError)
    return buildQueryEnd("denied", error.code, error.message, progress);
  return isExpectedError(error)
    ? buildQueryEnd("failed", error.code, error.message, progress)
    : buildQueryEnd(
        "failed",
        "internal",
        "something went wrong that nobody expected; the companion's log has it",
        progress,
      );
}

/** Whether it tells itself what happened; what does not belongs in the log. */
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
