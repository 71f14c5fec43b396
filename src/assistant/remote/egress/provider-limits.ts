import type { ProviderLimits } from "../provider-http/port.ts";

const MEBIBYTE = 2 ** 20;

/**
 * The limits of a request that generates text. A reasoning model may send nothing for minutes, so it may be silent for
 * five minutes, a limit that is common among HTTP clients.
 */
export const generateLimits: ProviderLimits = {
  headMs: 300_000,
  silentMs: 300_000,
  bytesMax: 64 * MEBIBYTE,
};

/**
 * The size limit per vector: enough for 16,384 decimal numbers. A vector of 4,096 numbers, which is long, has about 90
 * KB.
 */
const VECTOR_BYTES_MAX = MEBIBYTE / 4;

/**
 * Returns the limits of a request that embeds `texts` texts. The size limit is only as large as their vectors need,
 * because parsing a large document blocks all other work.
 */
export function getEmbedLimits(texts: number): ProviderLimits {
  return { headMs: 120_000, silentMs: 60_000, bytesMax: MEBIBYTE + texts * VECTOR_BYTES_MAX };
}

/**
 * The size limit for an answer that is one document instead of a stream; it equals the limit for one event of a stream.
 * Such a document can contain a million tokens. Parsing blocks all other work, and is slow for a document of nothing
 * but brackets.
 */
export const DOCUMENT_BYTES_MAX = 4 * MEBIBYTE;

/** The limits of a request for a list of models. The longest known list, with a few thousand models, has 2 MB. */
export const modelsLimits: ProviderLimits = {
  headMs: 10_000,
  silentMs: 10_000,
  bytesMax: 4 * MEBIBYTE,
};
