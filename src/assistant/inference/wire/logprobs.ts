import type { TokenLogprob } from "../runner.ts";
import { listMember, member, textMember } from "./wire-value.ts";

/** Of chat answers, or of plain completions, which tell no bytes: they are those of the text then. */
export function logprobsOf(value: unknown): TokenLogprob[] | undefined {
  const content = listMember(value, "content");
  if (content)
    return content.map((token) => ({
      ...chatToken(token),
      top: (listMember(token, "top_logprobs") ?? []).map((other) => chatToken(other)),
    }));
  const tokens = listMember(value, "tokens");
  if (!tokens) return undefined;
  const logprobs = listMember(value, "token_logprobs") ?? [];
  const tops = listMember(value, "top_logprobs") ?? [];
  return tokens.map((token, index) => ({
    ...plainToken(token, logprobs[index]),
    top: Object.entries(Object(tops[index] ?? {})).map(([text, logprob]) =>
      plainToken(text, logprob),
    ),
  }));
}

function chatToken(token: unknown) {
  const bytes = listMember(token, "bytes") ?? [];
  return {
    text: textMember(token, "token") ?? "",
    bytes: bytes.filter((byte) => typeof byte === "number"),
    logprob: logprobOf(member(token, "logprob")),
  };
}

function plainToken(token: unknown, logprob: unknown) {
  const text = typeof token === "string" ? token : "";
  return { text, bytes: [...Buffer.from(text)], logprob: logprobOf(logprob) };
}

function logprobOf(value: unknown): number {
  return typeof value === "number" ? value : Number.NEGATIVE_INFINITY;
}
