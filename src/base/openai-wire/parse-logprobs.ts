import { getArrayMember, getMember, getStringMember } from "./json-members.ts";

export interface TokenLogprob {
  readonly text: string;
  /** The UTF-8 bytes of this token alone, which may be only a part of a code point. */
  readonly bytes: readonly number[];
  /** The natural logarithm of the token's probability, 0 or less. */
  readonly logprob: number;
  readonly top: readonly Omit<TokenLogprob, "top">[];
}

/**
 * Reads `logprobs` of a chat answer or of a plain completion. A plain completion has no bytes, so the bytes of the
 * token's text are returned.
 */
export function parseLogprobs(value: unknown): TokenLogprob[] | undefined {
  const content = getArrayMember(value, "content");
  if (content)
    return content.map((token) => ({
      ...parseChatToken(token),
      top: (getArrayMember(token, "top_logprobs") ?? []).map((other) => parseChatToken(other)),
    }));
  const tokens = getArrayMember(value, "tokens");
  if (!tokens) return undefined;
  const logprobs = getArrayMember(value, "token_logprobs") ?? [];
  const tops = getArrayMember(value, "top_logprobs") ?? [];
  return tokens.map((token, index) => ({
    ...parseCompletionToken(token, logprobs[index]),
    top: Object.entries(Object(tops[index] ?? {})).map(([text, logprob]) =>
      parseCompletionToken(text, logprob),
    ),
  }));
}

function parseChatToken(token: unknown) {
  const bytes = getArrayMember(token, "bytes") ?? [];
  return {
    text: getStringMember(token, "token") ?? "",
    bytes: bytes.filter((byte) => typeof byte === "number"),
    logprob: parseLogprob(getMember(token, "logprob")),
  };
}

function parseCompletionToken(token: unknown, logprob: unknown) {
  const text = typeof token === "string" ? token : "";
  return { text, bytes: [...Buffer.from(text)], logprob: parseLogprob(logprob) };
}

function parseLogprob(value: unknown): number {
  return typeof value === "number" ? value : Number.NEGATIVE_INFINITY;
}
