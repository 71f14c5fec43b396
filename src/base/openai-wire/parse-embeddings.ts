import { endianness } from "node:os";
import { getArrayMember, getCountMember, getMember } from "./json-members.ts";
import type { ResponseErrors } from "./response-errors.ts";

/** One item of an answer of `/embeddings`, with its vector exactly as the server sent it. */
export interface WireEmbedding {
  readonly item: unknown;
  readonly vector: Float32Array;
}

/** Returns `count` embeddings in the order of their texts. Throws `malformedResponse` for any other answer. */
export function parseEmbeddings(
  body: unknown,
  count: number,
  errors: ResponseErrors,
): WireEmbedding[] {
  const data = getArrayMember(body, "data");
  if (data?.length !== count)
    throw errors.malformedResponse("the answer does not have one embedding for each text");
  const byIndex: (WireEmbedding | undefined)[] = data.map(() => undefined);
  for (const [position, item] of data.entries()) {
    const index = getCountMember(item, "index") ?? position;
    if (index >= count || byIndex[index])
      throw errors.malformedResponse("the answer does not have one embedding for each text");
    byIndex[index] = { item, vector: parseVector(getMember(item, "embedding"), errors) };
  }
  const embeddings = byIndex.filter((embedding) => embedding !== undefined);
  const length = embeddings[0]?.vector.length;
  if (embeddings.some(({ vector }) => vector.length === 0 || vector.length !== length))
    throw errors.malformedResponse("the answer has embeddings of different lengths");
  return embeddings;
}

function parseVector(value: unknown, errors: ResponseErrors): Float32Array {
  const vector = Array.isArray(value)
    ? Float32Array.from(value, (item) => Number(item))
    : decodeVector(value, errors);
  if (!vector.every((number) => Number.isFinite(number)))
    throw errors.malformedResponse("the answer has an embedding with items that are not numbers");
  return vector;
}

function decodeVector(value: unknown, errors: ResponseErrors): Float32Array {
  if (typeof value !== "string")
    throw errors.malformedResponse("the answer has an embedding that is neither a list nor base64");
  // The bytes are copied, because a pooled buffer may begin at an offset that is not a multiple of 4.
  const bytes = Uint8Array.from(Buffer.from(value, "base64"));
  if (bytes.length % 4 !== 0)
    throw errors.malformedResponse(
      "the answer has an embedding whose bytes are not a whole number of floats",
    );
  if (endianness() === "BE") Buffer.from(bytes.buffer).swap32();
  return new Float32Array(bytes.buffer);
}
