import type { ProviderLimits } from "../provider-http/port.ts";

const MEBIBYTE = 2 ** 20;

/** A reasoning model may be silent for minutes; five minutes is a common limit of HTTP clients. */
export const generateLimits: ProviderLimits = {
  headMs: 300_000,
  silentMs: 300_000,
  bytesMax: 64 * MEBIBYTE,
};

/** Enough for a vector of 16,384 decimal numbers. One of 4,096, which is long, has about 90 KB. */
const VECTOR_BYTES_MAX = MEBIBYTE / 4;

/** Allows only as much as this number of texts can need, because parsing a large document blocks all other work. */
export function getEmbedLimits(texts: number): ProviderLimits {
  return { headMs: 120_000, silentMs: 60_000, bytesMax: MEBIBYTE + texts * VECTOR_BYTES_MAX };
}

/**
 * Limit for an answer that is one document in place of a stream, the same as for one event of a stream. It has room for
 * a million tokens. Parsing blocks all other work, and is slow for a document of nothing but brackets.
 */
export const DOCUMENT_BYTES_MAX = 4 * MEBIBYTE;

/** The longest known list, with a few thousand models, has 2 MB. */
export const modelsLimits: ProviderLimits = {
  headMs: 10_000,
  silentMs: 10_000,
  bytesMax: 4 * MEBIBYTE,
};
