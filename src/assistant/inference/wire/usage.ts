import type { AnswerEvent } from "../service-port.ts";
import { countMember, member } from "./wire-value.ts";

export type EndEvent = Extract<AnswerEvent, { readonly type: "end" }>;

/** The counts of a whole answer, as `usage` has them; what it does not say is undefined. */
export interface Usage {
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly completionTokens: number | undefined;
  readonly reasoningTokens: number | undefined;
}

export function usageOf(value: unknown): Usage {
  return {
    promptTokens: countMember(value, "prompt_tokens"),
    cachedTokens: countMember(member(value, "prompt_tokens_details"), "cached_tokens"),
    completionTokens: countMember(value, "completion_tokens"),
    reasoningTokens: countMember(member(value, "completion_tokens_details"), "reasoning_tokens"),
  };
}

/** The end of a choice; without counts it has none. */
export function endOf(
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
