import type { TokenLogprob } from "../runner.ts";

/** What JSON says for "impossible": it has no infinity. */
const LOGPROB_MIN = -9999;

/** Logprobs as chat answers tell them. */
export function chatLogprobs(tokens: readonly TokenLogprob[]) {
  return {
    content: tokens.map((token) => ({
      ...chatToken(token),
      top_logprobs: token.top.map((other) => chatToken(other)),
    })),
    refusal: null,
  };
}

function chatToken(token: {
  readonly text: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}) {
  return { token: token.text, logprob: finite(token.logprob), bytes: token.bytes };
}

/** Logprobs as plain completions tell them; `offset` is where the first token stands in the choice. */
export function completionLogprobs(tokens: readonly TokenLogprob[], offset: number) {
  let at = offset;
  return {
    tokens: tokens.map((token) => token.text),
    token_logprobs: tokens.map((token) => finite(token.logprob)),
    top_logprobs: tokens.map((token) =>
      Object.fromEntries(token.top.map((other) => [other.text, finite(other.logprob)])),
    ),
    text_offset: tokens.map((token) => {
      const own = at;
      at += token.text.length;
      return own;
    }),
  };
}

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : LOGPROB_MIN;
}
