import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { timestamp } from "../../../../base/clock.ts";
import { type FusedItem, fuseRankings } from "../../../../base/rank-fusion.ts";
import type { SqliteDatabase } from "../../../../base/sqlite.ts";
import type { SearchHit } from "../../port.ts";
import { LexicalSearch, type LexicalSearchOptions } from "./lexical-search.ts";
import { computeCoverage } from "./query-coverage.ts";
import { parseQueryWords } from "./query-words.ts";
import { extractSnippet } from "./snippet.ts";
import type { VectorIndex } from "./vector-index.ts";

/** The number of items that fusion takes from each ranking. Items of lower rank would add almost nothing to a score. */
const CANDIDATES = 200;
/**
 * The weight of the ranking by cosine, relative to the ranking by BM25, whose weight is 1. With all-MiniLM-L6-v2 nDCG@10
 * rises up to this weight and more slowly above it (docs/context.md); a search for rare words needs the lexical ranking.
 */
const COSINE_WEIGHT = 1;
/** The constant k of reciprocal rank fusion, with the value that the authors of the method chose. */
const FUSION_K = 60;

/**
 * The earliest modification time that a search hit can contain. File systems allow times outside the range of RFC 3339,
 * whose years have four digits.
 */
const TIMESTAMP_MIN_MS = Date.parse("0001-01-01T00:00:00Z");
const TIMESTAMP_MAX_MS = Date.parse("9999-12-31T23:59:59.999Z");

export interface IndexQuery {
  readonly query: string;
  readonly limit: number;
  /** The scopes that are visible to the caller; undefined means all scopes. */
  readonly scopes: readonly string[] | undefined;
  /** The query's embedding; undefined if the search is lexical. */
  readonly queryVector: { readonly vector: Float32Array; readonly index: VectorIndex } | undefined;
}

/** The settings of the search ranking. The benchmark in bench/ compares different values. */
export interface SearcherOptions {
  readonly lexical?: Partial<LexicalSearchOptions>;
  /** The weight of the ranking by cosine, relative to the lexical ranking. */
  readonly cosineWeight?: number;
  readonly isDiversified?: boolean;
}

interface PassageRow {
  readonly id: number;
  readonly document: number;
}

interface HitRow {
  readonly key: string;
  readonly title: string;
  readonly body: string;
  readonly path: string;
  readonly mtimeMs: number;
  readonly source: string;
  readonly root: string;
}

/** Ranks passages, fuses the rankings, prefers hits in different documents, and reads the texts of the hits. */
export class Searcher {
  readonly #options: SearcherOptions;
  readonly #lexical: LexicalSearch;
  readonly #statements: ReturnType<typeof prepareStatements>;

  constructor(db: SqliteDatabase, settings: SearcherOptions = {}) {
    this.#options = settings;
    this.#lexical = new LexicalSearch(db, settings.lexical);
    this.#statements = prepareStatements(db);
  }

  search(indexQuery: IndexQuery): SearchHit[] {
    const sources =
      indexQuery.scopes && this.#statements.inScopes.all(JSON.stringify(indexQuery.scopes));
    const { query, limit, queryVector } = indexQuery;
    if (sources?.length === 0) return [];
    const lexical = this.#lexical.search(query, sources, CANDIDATES);
    const ranked = queryVector
      ? fuseRankings(
          [
            { items: lexical, weight: 1 },
            {
              items: queryVector.index.nearest(queryVector.vector, sources, CANDIDATES),
              weight: this.#options.cosineWeight ?? COSINE_WEIGHT,
            },
          ],
          FUSION_K,
        )
      : lexical.map((item, at) => ({ ...item, ranks: [at + 1] }));
    const terms = new Set(parseQueryWords(query).map(({ term }) => term));
    const weights = this.#lexical.weighWords(query);
    const mode = queryVector ? ("hybrid" as const) : ("lexical" as const);
    return this.#diversify(ranked, limit).flatMap(({ id, score, ranks }) => {
      const [lexicalRank = null, cosineRank = null] = ranks;
      const row = this.#statements.hit.get(id);
      if (!row) return [];
      return {
        source: row.source,
        provenance: `file:${row.source}`,
        snippet: extractSnippet(row.body, terms),
        score,
        coverage: roundCoverage(computeCoverage(weights, `${row.title}\n${row.body}`)),
        uri: pathToFileURL(join(row.root, row.path)).href,
        title: row.title,
        id: row.key,
        mtime: timestamp(Math.min(Math.max(row.mtimeMs, TIMESTAMP_MIN_MS), TIMESTAMP_MAX_MS)),
        parts: { lexical: lexicalRank, cosine: cosineRank },
        mode,
      };
    });
  }

  /** Selects the best passage of each document first, and further passages only if there are too few documents. */
  #diversify(ranked: readonly FusedItem[], limit: number): FusedItem[] {
    if (this.#options.isDiversified === false) return ranked.slice(0, limit);
    const ids = JSON.stringify(ranked.map(({ id }) => id));
    const documents = new Map(
      this.#statements.documents.all(ids).map((row) => [row.id, row.document]),
    );
    const seen = new Set<number | undefined>();
    const isFirst = ({ id }: FusedItem) => {
      const document = documents.get(id);
      return !seen.has(document) && seen.add(document);
    };
    const [firsts, others]: [FusedItem[], FusedItem[]] = [[], []];
    for (const passage of ranked) (isFirst(passage) ? firsts : others).push(passage);
    return [...firsts, ...others].slice(0, limit).toSorted((a, b) => b.score - a.score);
  }
}

/** Rounds a coverage to three decimals, so that the JSON is readable. */
function roundCoverage(coverage: number): number {
  return Math.round(coverage * 1_000) / 1_000;
}

function prepareStatements(db: SqliteDatabase) {
  return {
    inScopes: db
      .prepare<[string], number>(
        "SELECT id FROM source WHERE scope IN (SELECT value FROM json_each(?))",
      )
      .pluck(),
    documents: db.prepare<[string], PassageRow>(
      "SELECT id, document FROM chunk WHERE id IN (SELECT value FROM json_each(?))",
    ),
    hit: db.prepare<[number], HitRow>(
      `SELECT c.key, p.title, p.body, d.path, d.mtime_ms AS mtimeMs, s.name AS source, s.path AS root
       FROM chunk c JOIN passage p ON p.id = c.id JOIN document d ON d.id = c.document
       JOIN source s ON s.id = c.source WHERE c.id = ?`,
    ),
  };
}
