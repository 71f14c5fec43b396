import { RowBuilder, TermCounter, type Vocabulary, weighTerms } from "./sparse-rows.ts";
import { truncatedSvd } from "./truncated-svd.ts";

export interface LsaOptions {
  readonly dimensions: number;
  readonly iterations: number;
  readonly termsMax: number;
  readonly seed: number;
}

/** Chosen by `npx tsx bench/main.ts search`; docs/context.md has the figures. */
export const lsaDefaults: LsaOptions = {
  dimensions: 128,
  iterations: 4,
  termsMax: 30_000,
  seed: 20_261_121,
};

/** Texts that must have a word before it counts. */
const TEXTS_MIN = 3;
const SHARE_MAX = 0.3;
/** With as many dimensions as words each word stands for itself, and nothing is near to anything. */
const TERMS_A_DIMENSION = 6;
/** Texts between two yields, a few milliseconds. */
const TEXTS_A_STEP = 50;

/**
 * Latent semantic analysis: words that occur in the same passages lie near each other. A text is where
 * its words are on average. Learned from the corpus alone; knows nothing that is not in it.
 */
export class LsaModel {
  readonly vocabulary: Vocabulary;
  readonly dimensions: number;
  /** Of term i from i * dimensions. */
  readonly vectors: Float32Array;

  constructor(vocabulary: Vocabulary, dimensions: number, vectors: Float32Array) {
    this.vocabulary = vocabulary;
    this.dimensions = dimensions;
    this.vectors = vectors;
  }

  /** A vector of length 1; undefined where no word of the text is known. */
  embed(text: string): Float32Array | undefined {
    const sum = new Float32Array(this.dimensions);
    for (const { place, value } of weighTerms(text, this.vocabulary)) {
      const base = place * this.dimensions;
      for (let k = 0; k < sum.length; k += 1)
        sum[k] = (sum[k] ?? 0) + value * (this.vectors[base + k] ?? 0);
    }
    const length = Math.hypot(...sum);
    if (!(length > 1e-6)) return undefined;
    return sum.map((value) => value / length);
  }
}

/** Trains over texts that can be gone through twice. Yields every few milliseconds. */
export function* trainLsa(
  texts: () => Iterable<string>,
  options: LsaOptions = lsaDefaults,
): Generator<void, LsaModel> {
  const counter = new TermCounter();
  let seen = 0;
  for (const text of texts()) {
    counter.add(text);
    if ((seen += 1) % TEXTS_A_STEP === 0) yield;
  }
  const vocabulary = counter.vocabulary({
    textsMin: TEXTS_MIN,
    shareMax: SHARE_MAX,
    termsMax: options.termsMax,
  });
  const builder = new RowBuilder(vocabulary);
  for (const text of texts()) {
    builder.add(text);
    if ((seen += 1) % TEXTS_A_STEP === 0) yield;
  }
  const { dimensions, vectors } = yield* truncatedSvd(builder.rows(), {
    ...options,
    dimensions: Math.min(
      options.dimensions,
      Math.max(2, Math.floor(vocabulary.places.size / TERMS_A_DIMENSION)),
    ),
  });
  return new LsaModel(vocabulary, dimensions, vectors);
}
