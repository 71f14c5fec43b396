import type { ModelShape } from "./model-shape.ts";

/**
 * The maximum number of tokens that llama.cpp evaluates in one call: a chunk of a prompt, or one token for each
 * sequence.
 */
export const BATCH_TOKENS = 128;
/**
 * Most texts to embed are shorter than this. llama.cpp reserves memory for the longest text that a context accepts, so
 * short texts get small contexts, and longer texts share one large context.
 */
export const SHORT_TEXT_TOKENS = 512;
/** The longest text that a generating model embeds, if its context is that long. */
export const GENERATOR_TEXT_TOKENS_MAX = 2048;
/** The multiple to which node-llama-cpp rounds up the context of each KV-cache sequence, in tokens. */
export const CONTEXT_MULTIPLE = 256;

/** The bytes of one key or value in the KV cache (16 bits). */
const KV_VALUE_BYTES = 2;
/** The bytes of one value of the recurrent state or of an intermediate result (32 bits). */
const COMPUTE_VALUE_BYTES = 4;
/** The memory of Node, node-llama-cpp and llama.cpp's own structures, measured in a process with a model of 0.5 MB. */
const PROCESS_BYTES = 130e6;
/** The measured size of llama.cpp's graph for each layer; independent of the model's width. */
const GRAPH_BYTES_PER_LAYER = 0.5e6;

export interface MemoryEstimateOptions {
  readonly contextTokens: number;
  readonly sequences: number;
  /** True if layers with a sliding window keep the whole context. */
  readonly isDeterministic?: boolean | undefined;
}

/** Estimates the memory of a process with this model in bytes, rather too high than too low. */
export function estimateGenerationMemory(
  shape: ModelShape,
  weightBytes: number,
  { contextTokens, sequences, isDeterministic }: MemoryEstimateOptions,
): number {
  const cells = roundUp(contextTokens + 1, CONTEXT_MULTIPLE);
  const cache = isDeterministic === true ? { ...shape, windowTokens: [] } : shape;
  return (
    PROCESS_BYTES +
    weightBytes +
    sequences * estimateKvCacheBytes(cache, cells) +
    sequences * shape.recurrentState * COMPUTE_VALUE_BYTES +
    estimateComputeBytes(shape, BATCH_TOKENS, cells) +
    estimateEmbeddingContexts(
      shape,
      Math.min(contextTokens, GENERATOR_TEXT_TOKENS_MAX),
      1,
      SHORT_TEXT_TOKENS,
    ) +
    // The logits of a decoding step are in memory twice: in the computation and in the output.
    sequences * shape.vocabulary * COMPUTE_VALUE_BYTES
  );
}

/** Estimates the memory of a model that only embeds; `sequences` texts are computed concurrently. */
export function estimateEmbeddingMemory(
  shape: ModelShape,
  weightBytes: number,
  { contextTokens, sequences }: MemoryEstimateOptions,
): number {
  return (
    PROCESS_BYTES +
    weightBytes +
    estimateEmbeddingContexts(shape, contextTokens, sequences, contextTokens)
  );
}

/**
 * Estimates the memory of `atOnce` contexts for short texts and of one context for the longest text. `batch` is the
 * number of tokens that llama.cpp evaluates in one call.
 */
function estimateEmbeddingContexts(
  shape: ModelShape,
  textTokensMax: number,
  atOnce: number,
  batch: number,
): number {
  const context = (tokens: number) => {
    const cells = roundUp(tokens + 1, CONTEXT_MULTIPLE);
    const width = roundUp(Math.min(batch, tokens) + 1, CONTEXT_MULTIPLE);
    return (
      estimateKvCacheBytes(shape, cells) +
      estimateComputeBytes({ ...shape, vocabulary: 0 }, width, cells)
    );
  };
  const short = atOnce * context(Math.min(textTokensMax, SHORT_TEXT_TOKENS));
  return textTokensMax > SHORT_TEXT_TOKENS ? short + context(textTokensMax) : short;
}

function estimateKvCacheBytes(shape: ModelShape, cells: number): number {
  return shape.kvValuesPerToken.reduce((bytes, values, layer) => {
    const window = shape.windowTokens[layer];
    const kept =
      window === undefined
        ? cells
        : Math.min(cells, roundUp(window + BATCH_TOKENS, CONTEXT_MULTIPLE));
    return bytes + kept * values * KV_VALUE_BYTES;
  }, 0);
}

/**
 * llama.cpp reserves the maximum that the evaluation of one batch needs: the logits of a whole batch, or one layer with
 * its attention (which is small with flash attention, but is counted as if that were off).
 */
function estimateComputeBytes(shape: ModelShape, batch: number, cells: number): number {
  const logits = shape.vocabulary;
  const feedForward = 3 * shape.feedForwardLength + 4 * shape.embeddingLength;
  const attention = shape.heads * Math.min(cells, 4096) + 4 * shape.embeddingLength;
  const mask = cells * 2;
  return (
    batch * COMPUTE_VALUE_BYTES * (Math.max(logits, feedForward, attention) + mask) +
    shape.layers * GRAPH_BYTES_PER_LAYER
  );
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}
