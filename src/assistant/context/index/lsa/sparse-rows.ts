import { termsOf } from "./terms.ts";

/** A matrix with few entries that are not 0, row by row. */
export interface SparseRows {
  readonly rows: number;
  readonly columns: number;
  /** `rows + 1` places: row r stands from starts[r] up to starts[r + 1]. */
  readonly starts: Uint32Array;
  readonly columnOf: Uint32Array;
  readonly values: Float32Array;
}

/** The words that are counted, each with its place and its weight (inverse document frequency). */
export interface Vocabulary {
  readonly places: ReadonlyMap<string, number>;
  readonly weights: Float32Array;
}

export interface VocabularyLimits {
  /** Texts that must have a word: what only one has relates nothing to anything. */
  readonly textsMin: number;
  /** Share of the texts that may have it. */
  readonly shareMax: number;
  readonly termsMax: number;
}

/** Counts texts and makes the vocabulary of the words that are neither rare nor everywhere. */
export class TermCounter {
  readonly #texts = new Map<string, number>();
  #count = 0;

  add(text: string): void {
    this.#count += 1;
    for (const term of new Set(termsOf(text)))
      this.#texts.set(term, (this.#texts.get(term) ?? 0) + 1);
  }

  vocabulary({ textsMin, shareMax, termsMax }: VocabularyLimits): Vocabulary {
    const most = Math.max(textsMin, this.#count * shareMax);
    const kept = [...this.#texts]
      .filter(([, texts]) => texts >= textsMin && texts <= most)
      // By number, then by name, so that the same texts make the same vocabulary.
      .toSorted(([a, inA], [b, inB]) => inB - inA || (a < b ? -1 : 1))
      .slice(0, termsMax);
    const weights = Float32Array.from(kept, ([, texts]) => Math.log(1 + this.#count / texts));
    return { places: new Map(kept.map(([term], place) => [term, place])), weights };
  }
}

/** The known terms of a text with their weights, the whole of length 1; empty where none is known. */
export function weighTerms(
  text: string,
  { places, weights }: Vocabulary,
): readonly { readonly place: number; readonly value: number }[] {
  const counts = new Map<number, number>();
  for (const term of termsOf(text)) {
    const place = places.get(term);
    if (place !== undefined) counts.set(place, (counts.get(place) ?? 0) + 1);
  }
  const weighed = Array.from(counts, ([place, count]) => ({
    place,
    value: (1 + Math.log(count)) * (weights[place] ?? 0),
  }));
  const length = Math.hypot(...weighed.map(({ value }) => value));
  return length === 0 ? [] : weighed.map(({ place, value }) => ({ place, value: value / length }));
}

/** Collects rows; it grows by doubling, since nobody knows how many entries there will be. */
export class RowBuilder {
  readonly #vocabulary: Vocabulary;
  #starts: number[] = [0];
  #columnOf = new Uint32Array(1 << 16);
  #values = new Float32Array(1 << 16);
  #length = 0;

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  add(text: string): void {
    const terms = weighTerms(text, this.#vocabulary);
    while (this.#length + terms.length > this.#values.length) this.#grow();
    for (const { place, value } of terms) {
      this.#columnOf[this.#length] = place;
      this.#values[this.#length] = value;
      this.#length += 1;
    }
    this.#starts.push(this.#length);
  }

  rows(): SparseRows {
    return {
      rows: this.#starts.length - 1,
      columns: this.#vocabulary.places.size,
      starts: Uint32Array.from(this.#starts),
      columnOf: this.#columnOf.subarray(0, this.#length),
      values: this.#values.subarray(0, this.#length),
    };
  }

  #grow(): void {
    const [columnOf, values] = [this.#columnOf, this.#values];
    this.#columnOf = new Uint32Array(columnOf.length * 2);
    this.#columnOf.set(columnOf);
    this.#values = new Float32Array(values.length * 2);
    this.#values.set(values);
  }
}
