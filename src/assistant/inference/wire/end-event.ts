import type { Usage } from "../../../base/openai-wire/usage.ts";
import type { AnswerEvent } from "../service-port.ts";

export type EndEvent = Extract<AnswerEvent, { readonly type: "end" }>;

/** Creates the last event of a choice. Without token counts, `completionTokens` is 0. */
export function createEndEvent(
  choice: number,
  reason: EndEvent["reason"],
  counts: Partial<Pick<Usage, "completionTokens" | "reasoningTokens">> = {},
): EndEvent {
  const { completionTokens = 0, reasoningTokens } = counts;
  return {
    type: "end",
    choice,
    reason,
    completionTokens,
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}
