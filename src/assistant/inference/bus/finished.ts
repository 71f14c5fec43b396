import { AssistantError } from "../../errors.ts";
import type { AnswerEvent } from "../service-port.ts";

/** How a message ended: what the signal Finished tells of it. */
export interface Finished {
  readonly status: "completed" | "cancelled" | "failed";
  /** `v, code, message, usage, finish_reason`; what there is nothing to say of is null. */
  readonly detailJson: string;
}

type End = Extract<AnswerEvent, { readonly type: "end" }>;

export function completed(end: End, promptTokens: number): Finished {
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: end.completionTokens,
    total_tokens: promptTokens + end.completionTokens,
  };
  return finished("completed", { usage, finish_reason: end.reason });
}

export function cancelled(message: string): Finished {
  return finished("cancelled", { code: "cancelled", message });
}

export function failed(error: unknown): Finished {
  return error instanceof AssistantError && error.code !== "internal"
    ? finished("failed", { code: error.code, message: error.message })
    : finished("failed", {
        code: "internal",
        message: "something went wrong that nobody expected; the companion's log has it",
      });
}

interface Detail {
  readonly code?: string;
  readonly message?: string;
  readonly usage?: Readonly<Record<string, number>>;
  readonly finish_reason?: string;
}

function finished(status: Finished["status"], detail: Detail): Finished {
  const { code = null, message = null, usage = null, finish_reason = null } = detail;
  return {
    status,
    detailJson: JSON.stringify({ v: 1, code, message, usage, finish_reason }),
  };
}
