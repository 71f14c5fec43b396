import type Database from "better-sqlite3";
import type { RankedItem } from "../../../../base/rank-fusion.ts";
import type { SqliteDatabase } from "../../../../base/sqlite.ts";
import { stopTerms } from "../../../../base/stop-terms.ts";
import { parseQueryWords, type QueryWord } from "./query-words.ts";

export interface LexicalSearchOptions {
  /** The weight of a word in the title. A word in the text has the weight 1. */
  readonly titleWeight: number;
  readonly operator: " OR " | " AND ";
  /**
   * Words that occur in more than this share of the passages are ignored: they are slow to look up, and hardly help to
   * tell relevant passages from others.
   */
  readonly commonShare: number;
}

/** The default options of the lexical search, chosen by the measurements in docs/context.md. */
const defaultOptions: LexicalSearchOptions = { titleWeight: 4, operator: " OR ", commonShare: 0.2 };
/** A word that occurs in fewer passages than this is never ignored, because in a small index every word is common. */
const COMMON_MIN = 200;

/** Ranks passages by BM25. */
export class LexicalSearch {
  readonly #options: LexicalSearchOptions;
  readonly #find: Database.Statement<[string, number], RankedItem>;
  readonly #findIn: Database.Statement<[string, string, number], RankedItem>;
  readonly #countMatches: Database.Statement<[string], number>;
  readonly #count: Database.Statement<[], number>;
  /**
   * For each word, the number of passages that contain it. Cleared when the size of the index has changed by a tenth.
   */
  readonly #frequencies = new Map<string, number>();
  #countedAt = 0;

  constructor(db: SqliteDatabase, settings: Partial<LexicalSearchOptions> = {}) {
    this.#options = { ...defaultOptions, ...settings };
    const rank = `bm25(passage_words, ${this.#options.titleWeight}, 1.0, 1.0)`;
    this.#find = db.prepare(
      `SELECT rowid AS id, -${rank} AS score FROM passage_words
       WHERE passage_words MATCH ? ORDER BY ${rank} LIMIT ?`,
    );
    // CROSS JOIN prevents SQLite from starting the join with all rows of `chunk`.
    this.#findIn = db.prepare(
      `SELECT passage_words.rowid AS id, -${rank} AS score
       FROM passage_words CROSS JOIN chunk ON chunk.id = passage_words.rowid
       WHERE passage_words MATCH ? AND chunk.source IN (SELECT value FROM json_each(?))
       ORDER BY ${rank} LIMIT ?`,
    );
    this.#countMatches = db
      .prepare<[string], number>("SELECT doc FROM word WHERE term = ?")
      .pluck();
    this.#count = db.prepare<[], number>("SELECT count(*) FROM chunk").pluck();
  }

  /**
   * Returns the best passages, best first. `sources` are the ids of the visible sources; undefined means all sources.
   */
  search(query: string, sources: readonly number[] | undefined, limit: number): RankedItem[] {
    const match = this.#buildMatchExpression(parseQueryWords(query));
    if (match === undefined || sources?.length === 0) return [];
    return sources === undefined
      ? this.#find.all(match, limit)
      : this.#findIn.all(match, JSON.stringify(sources), limit);
  }

  /**
   * Returns the weight of each word of a query by its term. Words that few passages contain weigh more, because they
   * say more about the query's subject. Words that say nothing about a subject, such as `the`, are left out if the
   * query has others.
   */
  weighWords(query: string): ReadonlyMap<string, number> {
    const terms = parseQueryWords(query).map(({ term }) => term);
    const subjects = terms.filter((term) => !stopTerms.has(term));
    const count = Math.max(this.#countPassages(), COMMON_MIN);
    return new Map(
      (subjects.length > 0 ? subjects : terms).map((term) => [
        term,
        Math.log((count + 1) / (this.#documentFrequency(term) + 1)),
      ]),
    );
  }

  #countPassages(): number {
    const count = this.#count.get() ?? 0;
    if (Math.abs(count - this.#countedAt) > this.#countedAt / 10) {
      this.#frequencies.clear();
      this.#countedAt = count;
    }
    return count;
  }

  /** Returns the FTS5 expression for a query; undefined if the query has no words. */
  #buildMatchExpression(words: readonly QueryWord[]): string | undefined {
    const count = this.#countPassages();
    const max = Math.max(COMMON_MIN, count * this.#options.commonShare);
    const rare = words.filter(({ term }) => this.#documentFrequency(term) <= max);
    const kept = rare.length > 0 ? rare : words;
    return kept.length === 0
      ? undefined
      : kept.map(({ match }) => match).join(this.#options.operator);
  }

  #documentFrequency(term: string): number {
    const known = this.#frequencies.get(term);
    if (known !== undefined) return known;
    const counted = this.#countMatches.get(term) ?? 0;
    if (this.#frequencies.size > 10_000) this.#frequencies.clear();
    this.#frequencies.set(term, counted);
    return counted;
  }
}
