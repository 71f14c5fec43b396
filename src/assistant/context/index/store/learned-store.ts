import type { SqliteDatabase } from "../../../../base/sqlite.ts";
import { LsaModel } from "../lsa/lsa-model.ts";
import { termsOf } from "../lsa/terms.ts";

interface LearnedRow {
  readonly term: string;
  readonly weight: number;
  readonly value: Buffer;
}

/** What was learned from the corpus, word by word, so that a word can be taken out again. */
export class LearnedStore {
  readonly #statements: ReturnType<typeof prepare>;

  constructor(db: SqliteDatabase) {
    this.#statements = prepare(db);
  }

  /** In a transaction. */
  save(space: number, { vocabulary, vectors, dimensions }: LsaModel): void {
    for (const [term, place] of vocabulary.places) {
      const vector = vectors.slice(place * dimensions, (place + 1) * dimensions);
      const value = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
      this.#statements.add.run(space, term, vocabulary.weights[place] ?? 0, value);
    }
  }

  /** Undefined where nothing was learned. */
  load(space: number): LsaModel | undefined {
    const rows = this.#statements.all.all(space);
    const dimensions = (rows[0]?.value.length ?? 0) / Float32Array.BYTES_PER_ELEMENT;
    if (dimensions === 0) return undefined;
    const vectors = new Float32Array(rows.length * dimensions);
    for (const [place, { value }] of rows.entries()) {
      // A blob need not begin where a float may.
      vectors.set(new Float32Array(Uint8Array.from(value).buffer), place * dimensions);
    }
    const weights = Float32Array.from(rows, ({ weight }) => weight);
    const places = new Map(rows.map(({ term }, place) => [term, place]));
    return new LsaModel({ places, weights }, dimensions, vectors);
  }

  /** In a transaction. Words that no text has any more are not kept here either. */
  forget(space: number, terms: ReadonlySet<string>): string[] {
    const gone = [...terms].filter((term) => this.#statements.isHeld.get(term) === undefined);
    for (const term of gone) this.#statements.remove.run(space, term);
    return gone;
  }
}

/** The words of texts that a model knows. */
export function learnedTerms(texts: readonly string[], model: LsaModel | undefined): string[] {
  if (!model) return [];
  return texts.flatMap((text) => termsOf(text).filter((term) => model.vocabulary.places.has(term)));
}

function prepare(db: SqliteDatabase) {
  return {
    add: db.prepare("INSERT INTO learned (space, term, weight, value) VALUES (?, ?, ?, ?)"),
    all: db.prepare<[number], LearnedRow>(
      "SELECT term, weight, value FROM learned WHERE space = ? ORDER BY term",
    ),
    remove: db.prepare("DELETE FROM learned WHERE space = ? AND term = ?"),
    isHeld: db.prepare<[string], number>("SELECT 1 FROM word WHERE term = ?").pluck(),
  };
}
