import type { EmbedRequest } from "../service-port.ts";
import { embeddingsOf, type WireEmbedding } from "../wire/embeddings.ts";
import { countMember, member, textMember } from "../wire/wire-value.ts";
import { notUnderstood, upstreamWords } from "./wire-error.ts";

export interface Embeddings {
  readonly model: string;
  readonly vectors: readonly Float32Array[];
  readonly tokens: readonly number[];
}

/** The answer of POST /v1/embeddings. Throws AssistantError `engine_failed` where it is no such answer. */
export function upstreamEmbeddings(body: unknown, request: EmbedRequest): Embeddings {
  const model = textMember(body, "model");
  if (model === undefined) throw notUnderstood("embeddings of no model");
  const all = embeddingsOf(body, request.texts.length, upstreamWords);
  return { model, vectors: all.map(({ vector }) => vector), tokens: tokensOf(body, all) };
}

/** One that does not tell them for each text tells their sum: it is put on the first. */
function tokensOf(body: unknown, all: readonly WireEmbedding[]): number[] {
  const total = countMember(member(body, "usage"), "prompt_tokens") ?? 0;
  return all.map(({ item }, index) => countMember(item, "svc_tokens") ?? (index === 0 ? total : 0));
}
