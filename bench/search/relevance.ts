import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { LexicalSearchOptions } from "../../src/assistant/context/index/search/lexical-search.ts";
import { Searcher } from "../../src/assistant/context/index/search/searcher.ts";
import { DocumentStore } from "../../src/assistant/context/index/store/document-store.ts";
import { openIndex } from "../../src/assistant/context/index/store/open-index.ts";
import { CHUNK_CHARACTERS, splitIntoChunks } from "../../src/assistant/context/index/text/chunk.ts";
import type { Figure } from "../report.ts";
import { type Page, readManual } from "./manual.ts";
import { type KnownItem, knownItems } from "./queries.ts";

/** The nDCG@10 that the lexical ranking must reach. */
const NDCG_MIN = 0.4;

/**
 * Measures how relevant the search results for the labelled queries are: with the normal settings of the index, and
 * with one setting changed at a time.
 */
export function measureRelevance(dir: string): Figure[] {
  const pages = readManual();
  const names = new Set(pages.map(({ name }) => name));
  const items = knownItems.filter((item) => item.pages.every((page) => names.has(page)));
  if (items.length < 100)
    throw new Error(
      `the manual has the pages of only ${items.length} of ${knownItems.length} queries: on Debian, ` +
        "install man-db and manpages, and let dpkg install /usr/share/man (dpkg.cfg.d may leave it out)",
    );
  const usual = new Corpus(join(dir, "usual"), pages, CHUNK_CHARACTERS);
  const lexical = usual.score(items, {});
  const lines: string[] = [];
  const addLine = (what: string, score: Score) =>
    lines.push(`${what.padEnd(44)} ${formatScore(score)}`);
  addLine(`lexical (chunks of ${CHUNK_CHARACTERS}, title 4, OR, porter)`, lexical);
  addLine("  AND instead of OR", usual.score(items, { lexical: { operator: " AND " } }));
  for (const titleWeight of [1, 2, 8])
    addLine(`  title weight ${titleWeight}`, usual.score(items, { lexical: { titleWeight } }));
  for (const commonShare of [0.05, 0.1, 0.4, 1])
    addLine(
      `  words in over ${commonShare * 100} % of passages left out`,
      usual.score(items, { lexical: { commonShare } }),
    );
  addLine("  several passages of one document", usual.score(items, { isDiversified: false }));
  const { passages } = usual;
  usual.close();
  for (const size of [300, 1_200, 2_400]) {
    const other = new Corpus(join(dir, `size-${size}`), pages, size);
    addLine(`chunks of ${size}`, other.score(items, {}));
    other.close();
  }
  const tokenizer = "unicode61 remove_diacritics 2";
  const plain = new Corpus(join(dir, "plain"), pages, CHUNK_CHARACTERS, tokenizer);
  addLine("without stemming", plain.score(items, {}));
  plain.close();
  return [
    {
      name: `search: nDCG@10, lexical, ${items.length} queries`,
      value: lexical.all.toFixed(3),
      floor: "",
      ratio: "",
      aim: `>= ${NDCG_MIN.toFixed(3)}`,
      isMet: lexical.all >= NDCG_MIN,
      notes: [
        `${pages.length} pages, ${passages} passages`,
        "settings were chosen on every second query (chosen); the others were kept for this (held out)",
        ...lines,
      ],
    },
  ];
}

interface Score {
  readonly all: number;
  readonly chosen: number;
  readonly heldOut: number;
}

interface Variant {
  readonly lexical?: Partial<LexicalSearchOptions>;
  readonly isDiversified?: boolean;
}

const formatScore = ({ all, chosen, heldOut }: Score) =>
  `${all.toFixed(3)}  (chosen ${chosen.toFixed(3)}, held out ${heldOut.toFixed(3)})`;

/** A search index of Debian's manual pages, with one document for each page. */
class Corpus {
  readonly #dir: string;
  readonly #db: ReturnType<typeof openIndex>["db"];

  constructor(dir: string, pages: readonly Page[], size: number, tokenize?: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true });
    const { db } = openIndex(dir);
    this.#db = db;
    if (tokenize !== undefined) {
      db.exec(`DROP TABLE word; DROP TABLE passage_words;
        CREATE VIRTUAL TABLE passage_words USING fts5 (title, body, hidden, content = 'passage',
          content_rowid = 'id', tokenize = '${tokenize}');
        CREATE VIRTUAL TABLE word USING fts5vocab (passage_words, 'row');`);
    }
    db.exec("INSERT INTO source (id, name, path, scope) VALUES (1, 'man', '/man', 'man')");
    const documents = new DocumentStore(db);
    documents.inTransaction(() => {
      for (const { name, document } of pages)
        documents.put({
          source: 1,
          path: name,
          title: document.title,
          size: 0,
          mtimeMs: 0,
          ctimeMs: 0,
          indexedMs: 0,
          sha256: Buffer.alloc(32),
          chunks: splitIntoChunks(document, size),
        });
    });
  }

  get passages(): number {
    return this.#db.prepare<[], number>("SELECT count(*) FROM chunk").pluck().get() ?? 0;
  }

  score(items: readonly KnownItem[], variant: Variant): Score {
    const searcher = new Searcher(this.#db, variant);
    const each = items.map(({ query, pages }) => {
      const hits = searcher.search({ query, limit: 10, scopes: undefined, queryVector: undefined });
      return computeNdcg(
        hits.map(({ uri }) => uri.slice(uri.lastIndexOf("/") + 1)),
        pages,
      );
    });
    const mean = (values: readonly number[]) =>
      values.reduce((sum, value) => sum + value, 0) / values.length;
    return {
      all: mean(each),
      chosen: mean(each.filter((_, at) => at % 2 === 0)),
      heldOut: mean(each.filter((_, at) => at % 2 === 1)),
    };
  }

  close(): void {
    this.#db.close();
    rmSync(this.#dir, { recursive: true });
  }
}

/** Computes nDCG@10 over passages. A page counts at its first passage; its further passages only occupy ranks. */
function computeNdcg(found: readonly string[], pages: readonly string[]): number {
  const worth = (at: number) => (at === 0 ? 1 : 0.5);
  const seen = new Set<string>();
  let sum = 0;
  for (const [place, page] of found.slice(0, 10).entries()) {
    const at = seen.has(page) ? -1 : pages.indexOf(page);
    seen.add(page);
    if (at !== -1) sum += worth(at) / Math.log2(place + 2);
  }
  const best = pages.reduce((total, _, at) => total + worth(at) / Math.log2(at + 2), 0);
  return sum / best;
}
