import { getCountMember, getMember } from "./json-members.ts";

/** The token counts of a whole answer, from its member `usage`. A count that the server left out is undefined. */
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
