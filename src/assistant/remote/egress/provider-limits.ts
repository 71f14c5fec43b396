import type { ProviderLimits } from "../provider-http/port.ts";

const MEBIBYTE = 2 ** 20;

/** A model that thinks before it speaks is silent for minutes; five are what HTTP clients commonly wait. */
export const generateLimits: ProviderLimits = {
  headMs: 300_000,
  silentMs: 300_000,
  bytesMax: 64 * MEBIBYTE,
};

/** Of a vector in digits: 16,384 numbers. One of 4,096, which is long, has some 90 KB. */
const VECTOR_BYTES_MAX = MEBIBYTE / 4;

/** Only as much as so many texts can need: what is read whole stops everything else while it is taken apart. */
export function getEmbedLimits(texts: number): ProviderLimits {
  return { headMs: 120_000, silentMs: 60_000, bytesMax: MEBIBYTE + texts * VECTOR_BYTES_MAX };
}

/**
 * Of an answer that is one document in place of a stream; as much as a single event of a stream may have. A million
 * tokens: nothing else goes on while it is parsed, which takes long where it holds nothing but brackets.
 */
export const DOCUMENT_BYTES_MAX = 4 * MEBIBYTE;

/** The longest list there is, of some thousand models, has 2 MB. */
export const modelsLimits: ProviderLimits = {
  headMs: 10_000,
  silentMs: 10_000,
  bytesMax: 4 * MEBIBYTE,
};
