import { join } from "node:path";
import type {
  IndexQuery,
  SearcherOptions,
} from "../../src/assistant/context/index/search/searcher.ts";
import { CHUNK_CHARACTERS } from "../../src/assistant/context/index/text/chunk.ts";
import type { Figure } from "../report.ts";
import { Corpus } from "./corpus.ts";
import { measureCutOff } from "./cut-off.ts";
import { readManual } from "./manual.ts";
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
  const lexical = measureScore(usual, items, {});
  const lines: string[] = [];
  const addLine = (what: string, score: Score) =>
    lines.push(`${what.padEnd(44)} ${formatScore(score)}`);
  addLine(`lexical (chunks of ${CHUNK_CHARACTERS}, title 4, OR, porter)`, lexical);
  addLine("  AND instead of OR", measureScore(usual, items, { lexical: { operator: " AND " } }));
  for (const titleWeight of [1, 2, 8])
    addLine(
      `  title weight ${titleWeight}`,
      measureScore(usual, items, { lexical: { titleWeight } }),
    );
  for (const commonShare of [0.05, 0.1, 0.4, 1])
    addLine(
      `  words in over ${commonShare * 100} % of passages left out`,
      measureScore(usual, items, { lexical: { commonShare } }),
    );
  addLine(
    "  several passages of one document",
    measureScore(usual, items, { isDiversified: false }),
  );
  const { passages } = usual;
  const cutOff = measureCutOff(dir, usual, pages, items);
  usual.close();
  for (const size of [300, 1_200, 2_400]) {
    const other = new Corpus(join(dir, `size-${size}`), pages, size);
    addLine(`chunks of ${size}`, measureScore(other, items, {}));
    other.close();
  }
  const tokenizer = "unicode61 remove_diacritics 2";
  const plain = new Corpus(join(dir, "plain"), pages, CHUNK_CHARACTERS, tokenizer);
  addLine("without stemming", measureScore(plain, items, {}));
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
    cutOff,
  ];
}

export interface Score {
  readonly all: number;
  readonly chosen: number;
  readonly heldOut: number;
}

export const formatScore = ({ all, chosen, heldOut }: Score) =>
  `${all.toFixed(3)}  (chosen ${chosen.toFixed(3)}, held out ${heldOut.toFixed(3)})`;

/**
 * Searches for each query and measures the relevance of the results. `toVector` returns the vector of a query, if the
 * ranking should compare vectors in addition to words.
 */
export function measureScore(
  corpus: Corpus,
  items: readonly KnownItem[],
  variant: SearcherOptions,
  toVector: (query: string) => IndexQuery["queryVector"] = () => undefined,
): Score {
  const searcher = corpus.searcher(variant);
  const each = items.map(({ query, pages }) => {
    const queryVector = toVector(query);
    const hits = searcher.search({ query, limit: 10, scopes: undefined, queryVector });
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

/**
 * Computes nDCG@10 over passages. A page counts at the rank of its first passage. Its further passages have no
 * relevance, but take up ranks.
 */
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
