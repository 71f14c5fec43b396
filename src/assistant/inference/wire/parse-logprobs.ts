import type { TokenLogprob } from "../runner.ts";
import { getArrayMember, getMember, getStringMember } from "./json-members.ts";

/** Of chat answers, or of plain completions, which tell no bytes: they are those of the text then. */
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
