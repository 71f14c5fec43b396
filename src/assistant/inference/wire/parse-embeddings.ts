import { endianness } from "node:os";
import { getArrayMember, getCountMember, getMember } from "./json-members.ts";
import type { ResponseErrors } from "./response-errors.ts";

/** One item of an answer of `/embeddings`, and its vector as it came. */
export interface WireEmbedding {
  readonly item: unknown;
  readonly vector: Float32Array;
}

/** As many as there were texts, in their order. Throws `notUnderstood` for anything else. */
export function parseEmbeddings(
  body: unknown,
  count: number,
  errors: ResponseErrors,
): WireEmbedding[] {
  const data = getArrayMember(body, "data");
  if (data?.length !== count) throw errors.malformedResponse("embeddings of other texts");
  const found: (WireEmbedding | undefined)[] = data.map(() => undefined);
  for (const [position, item] of data.entries()) {
    const index = getCountMember(item, "index") ?? position;
    if (index >= count || found[index]) throw errors.malformedResponse("embeddings of other texts");
    found[index] = { item, vector: parseVector(getMember(item, "embedding"), errors) };
  }
  const all = found.filter((one) => one !== undefined);
  if (all.some(({ vector }) => vector.length === 0 || vector.length !== all[0]?.vector.length))
    throw errors.malformedResponse("embeddings of different lengths");
  return all;
}

function parseVector(value: unknown, errors: ResponseErrors): Float32Array {
  const vector = Array.isArray(value)
    ? Float32Array.from(value, (item) => Number(item))
    : decodeVector(value, errors);
  if (!vector.every((number) => Number.isFinite(number)))
    throw errors.malformedResponse("an embedding of what are no numbers");
  return vector;
}

function decodeVector(value: unknown, errors: ResponseErrors): Float32Array {
  if (typeof value !== "string") throw errors.malformedResponse("an embedding that is no vector");
  // A copy of its own: a buffer of the pool need not begin where floats may.
  const bytes = Uint8Array.from(Buffer.from(value, "base64"));
  if (bytes.length % 4 !== 0) throw errors.malformedResponse("an embedding of part of a number");
  if (endianness() === "BE") Buffer.from(bytes.buffer).swap32();
  return new Float32Array(bytes.buffer);
}
