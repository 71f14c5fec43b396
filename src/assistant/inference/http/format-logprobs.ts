import type { TokenLogprob } from "../runner.ts";

/** The number that is sent for a logprob of minus infinity, which JSON cannot represent. */
const LOGPROB_MIN = -9999;

/** Formats logprobs for chat answers. */
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

/**
 * Formats logprobs for plain completions. `offset` is the position of the first of the tokens in the choice's text, in
 * UTF-16 units.
 */
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
