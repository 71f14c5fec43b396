import { endianness } from "node:os";
import { countMember, listMember, member } from "./wire-value.ts";
import type { WireWords } from "./wire-words.ts";

/** One item of an answer of `/embeddings`, and its vector as it came. */
export interface WireEmbedding {
  readonly item: unknown;
  readonly vector: Float32Array;
}

/** As many as there were texts, in their order. Throws `notUnderstood` for anything else. */
export function embeddingsOf(body: unknown, count: number, words: WireWords): WireEmbedding[] {
  const data = listMember(body, "data");
  if (data?.length !== count) throw words.notUnderstood("embeddings of other texts");
  const found: (WireEmbedding | undefined)[] = data.map(() => undefined);
  for (const [position, item] of data.entries()) {
    const index = countMember(item, "index") ?? position;
    if (index >= count || found[index]) throw words.notUnderstood("embeddings of other texts");
    found[index] = { item, vector: vectorOf(member(item, "embedding"), words) };
  }
  const all = found.filter((one) => one !== undefined);
  if (all.some(({ vector }) => vector.length === 0 || vector.length !== all[0]?.vector.length))
    throw words.notUnderstood("embeddings of different lengths");
  return all;
}

function vectorOf(value: unknown, words: WireWords): Float32Array {
  const vector = Array.isArray(value)
    ? Float32Array.from(value, (item) => Number(item))
    : decoded(value, words);
  if (!vector.every((number) => Number.isFinite(number)))
    throw words.notUnderstood("an embedding of what are no numbers");
  return vector;
}

function decoded(value: unknown, words: WireWords): Float32Array {
  if (typeof value !== "string") throw words.notUnderstood("an embedding that is no vector");
  // A copy of its own: a buffer of the pool need not begin where floats may.
  const bytes = Uint8Array.from(Buffer.from(value, "base64"));
  if (bytes.length % 4 !== 0) throw words.notUnderstood("an embedding of part of a number");
  if (endianness() === "BE") Buffer.from(bytes.buffer).swap32();
  return new Float32Array(bytes.buffer);
}
