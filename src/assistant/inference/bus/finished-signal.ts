import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent } from "../service-port.ts";

/**
 * The arguments of the bus signal Finished, which reports the result of a message. The codes are those of the signal
 * Finished of Overlay1.
 */
export interface FinishedSignal {
  readonly status: "completed" | "cancelled" | "failed";
  /**
   * A JSON object with the members `v, code, message, usage, finish_reason`. The code is `ok` with an empty message,
   * `cancelled`, `shutting_down`, or the code of the error that ended the message; `usage` and `finish_reason` are null
   * for a message that did not complete.
   */
  readonly detailJson: string;
}

/** The reason why a message is ended before its text is complete. */
export interface CancelReason {
  readonly code: "cancelled" | "shutting_down";
  readonly message: string;
}

type End = Extract<AnswerEvent, { readonly type: "end" }>;

export function completedSignal(end: End, promptTokens: number): FinishedSignal {
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: end.completionTokens,
    total_tokens: promptTokens + end.completionTokens,
  };
  return createFinishedSignal("completed", {
    code: "ok",
    message: "",
    usage,
    finish_reason: end.reason,
  });
}

export function cancelledSignal({ code, message }: CancelReason): FinishedSignal {
  return createFinishedSignal("cancelled", { code, message });
}

export function failedSignal(error: unknown): FinishedSignal {
  return error instanceof AssistantError && error.code !== "internal"
    ? createFinishedSignal("failed", { code: error.code, message: error.message })
    : createFinishedSignal("failed", {
        code: "internal",
        message: "an unexpected error occurred; the companion's log has the details",
      });
}

interface Detail {
  readonly code: string;
  readonly message: string;
  readonly usage?: Readonly<Record<string, number>>;
  readonly finish_reason?: string;
}

function createFinishedSignal(status: FinishedSignal["status"], detail: Detail): FinishedSignal {
  const { code, message, usage = null, finish_reason = null } = detail;
  return {
    status,
    detailJson: JSON.stringify({ v: 1, code, message, usage, finish_reason }),
  };
}
