import { AssistantError } from "../errors.ts";
import { DeniedError } from "./denied.ts";
import type { FinishedDetail, FinishedStatus, TurnCall } from "./port.ts";

/** How a query ended: the status and the detail of Finished. */
export interface Ending {
  readonly status: FinishedStatus;
  readonly detail: FinishedDetail;
}

/** What is known of a query's answer so far; told also of one that does not come to its end. */
export interface Progress {
  readonly usage: FinishedDetail["usage"];
  readonly finishReason: FinishedDetail["finish_reason"];
  readonly model: string | null;
  readonly calls: readonly TurnCall[];
  /** What an answer had to do without; "" for nothing. */
  readonly note: string;
}

export function completed(progress: Progress): Ending {
  return ending("completed", "ok", progress.note, progress);
}

export function cancelled(
  code: "cancelled" | "shutting_down",
  message: string,
  progress: Progress,
): Ending {
  return ending("cancelled", code, message, progress);
}

/** What ended it from inside. */
export function failed(error: unknown, progress: Progress): Ending {
  if (error instanceof DeniedError) return ending("denied", error.code, error.message, progress);
  return isExpected(error)
    ? ending("failed", error.code, error.message, progress)
    : ending(
        "failed",
        "internal",
        "something went wrong that nobody expected; the companion's log has it",
        progress,
      );
}

/** Whether it tells itself what happened; what does not belongs in the log. */
export function isExpected(error: unknown): error is AssistantError {
  return error instanceof AssistantError && error.code !== "internal";
}

function ending(status: FinishedStatus, code: string, message: string, progress: Progress): Ending {
  const { usage, finishReason, model, calls } = progress;
  return {
    status,
    detail: { v: 1, code, message, usage, finish_reason: finishReason, model, calls },
  };
}
