import { endianness } from "node:os";
import type { EmbedRequest } from "../service-port.ts";
import { notUnderstood } from "./wire-error.ts";
import { countMember, listMember, member, textMember } from "./wire-value.ts";

export interface Embeddings {
  readonly model: string;
  readonly vectors: readonly Float32Array[];
  readonly tokens: readonly number[];
}

/** The answer of POST /v1/embeddings. Throws AssistantError `engine_failed` where it is no such answer. */
export function embeddingsOf(body: unknown, request: EmbedRequest): Embeddings {
  const data = listMember(body, "data");
  const model = textMember(body, "model");
  if (data?.length !== request.texts.length || model === undefined)
    throw notUnderstood("embeddings of other texts");
  const vectors = data.map((item) => vectorOf(member(item, "embedding")));
  if (vectors.some(({ length }) => length === 0 || length !== vectors[0]?.length))
    throw notUnderstood("embeddings of different lengths");
  return { model, vectors, tokens: tokensOf(body, data) };
}

/** One that does not tell them for each text tells their sum: it is put on the first. */
function tokensOf(body: unknown, data: readonly unknown[]): number[] {
  const told = data.map((item) => countMember(item, "svc_tokens"));
  const total = countMember(member(body, "usage"), "prompt_tokens") ?? 0;
  return told.map((count, index) => count ?? (index === 0 ? total : 0));
}

function vectorOf(value: unknown): Float32Array {
  if (Array.isArray(value)) return Float32Array.from(value, (item) => Number(item));
  if (typeof value !== "string") throw notUnderstood("an embedding that is no vector");
  // A copy of its own: a buffer of the pool need not begin where floats may.
  const bytes = Uint8Array.from(Buffer.from(value, "base64"));
  if (bytes.length % 4 !== 0) throw notUnderstood("an embedding of part of a number");
  if (endianness() === "BE") Buffer.from(bytes.buffer).swap32();
  return new Float32Array(bytes.buffer);
}
