import type { TokenLogprob } from "../runner.ts";

/** What JSON says for "impossible": it has no infinity. */
const LOGPROB_MIN = -9999;

/** Logprobs as chat answers tell them. */
export function formatChatLogprobs(tokens: readonly TokenLogprob[]) {
  return {
    content: tokens.map((token) => ({
      ...formatChatToken(token),
      top_logprobs: token.top.map((other) => formatChatToken(other)),
    })),
    refusal: null,
  };
}

function formatChatToken(token: {
  readonly text: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}) {
  return { token: token.text, logprob: toFiniteLogprob(token.logprob), bytes: token.bytes };
}

/** Logprobs as plain completions tell them; `offset` is where the first token stands in the choice. */
export function formatCompletionLogprobs(tokens: readonly TokenLogprob[], offset: number) {
  let at = offset;
  return {
    tokens: tokens.map((token) => token.text),
    token_logprobs: tokens.map((token) => toFiniteLogprob(token.logprob)),
    top_logprobs: tokens.map((token) =>
      Object.fromEntries(token.top.map((other) => [other.text, toFiniteLogprob(other.logprob)])),
    ),
    text_offset: tokens.map((token) => {
      const own = at;
      at += token.text.length;
      return own;
    }),
  };
}

function toFiniteLogprob(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : LOGPROB_MIN;
}
