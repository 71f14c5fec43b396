import { endianness } from "node:os";
import { setImmediate as nextTurn } from "node:timers/promises";
import { invalidParamError } from "./body-validator.ts";

/**
 * The number of values that are formatted in one turn of the event loop. Formatting a thousand vectors as digits takes
 * half a second, so the work is divided into slices of about ten milliseconds, between which other streams continue.
 */
const FLOATS_PER_TURN = 16_384;

/**
 * Returns the list of embeddings as JSON text, in the order of the vectors. If `tokens` is set, each embedding has its
 * token count. Rejects when the signal aborts.
 */
export async function formatEmbeddings(
  vectors: readonly Float32Array[],
  encoding: "float" | "base64",
  signal: AbortSignal,
  tokens?: readonly number[],
): Promise<string> {
  const parts: string[] = [];
  let floats = 0;
  for (const [index, vector] of vectors.entries()) {
    const embedding =
      encoding === "base64" ? `"${encodeBase64(vector)}"` : JSON.stringify(Array.from(vector));
    const count = tokens?.[index] === undefined ? "" : `,"svc_tokens":${tokens[index]}`;
    parts.push(`{"object":"embedding","index":${index},"embedding":${embedding}${count}}`);
    floats += vector.length;
    if (floats >= FLOATS_PER_TURN) {
      floats = 0;
      await nextTurn();
      signal.throwIfAborted();
    }
  }
  return `[${parts.join(",")}]`;
}

/** Throws AssistantError `invalid_request` if the model has fewer dimensions than requested. */
export function checkDimensions(requested: number | undefined, length: number | undefined): void {
  if (requested === undefined || length === undefined || requested <= length) return;
  throw invalidParamError(
    "dimensions",
    `has to be at most ${length}, the number of dimensions of the model`,
  );
}

/**
 * Returns the first dimensions of a vector, normalised to length 1 again. Models that are trained for truncation need
 * the normalisation.
 */
export function truncateVector(vector: Float32Array, dimensions: number): Float32Array {
  if (vector.length === dimensions) return vector;
  const kept = vector.slice(0, dimensions);
  const norm = Math.sqrt(kept.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? kept : kept.map((value) => value / norm);
}

/** Encodes a vector in Base64, as little-endian 32-bit floats whatever the byte order of this machine. */
export function encodeBase64(vector: Float32Array): string {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return (endianness() === "LE" ? bytes : Buffer.from(bytes).swap32()).toString("base64");
}
