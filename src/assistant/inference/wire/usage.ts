import type { AnswerEvent } from "../service-port.ts";
import { getCountMember, getMember } from "./json-members.ts";

export type EndEvent = Extract<AnswerEvent, { readonly type: "end" }>;

/** The counts of a whole answer, as `usage` has them; what it does not say is undefined. */
export interface Usage {
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly completionTokens: number | undefined;
  readonly reasoningTokens: number | undefined;
}

export function parseUsage(value: unknown): Usage {
  return {
    promptTokens: getCountMember(value, "prompt_tokens"),
    cachedTokens: getCountMember(getMember(value, "prompt_tokens_details"), "cached_tokens"),
    completionTokens: getCountMember(value, "completion_tokens"),
    reasoningTokens: getCountMember(
      getMember(value, "completion_tokens_details"),
      "reasoning_tokens",
    ),
  };
}

/** The end of a choice; without counts it has none. */
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
