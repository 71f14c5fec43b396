import { join } from "node:path";
import type { SearchHit } from "../../src/assistant/context/port.ts";
import { COVERAGE_MIN, selectRelevantHits } from "../../src/assistant/overlay/relevant-hits.ts";
import type { Figure } from "../report.ts";
import { Corpus } from "./corpus.ts";
import type { Page } from "./manual.ts";
import type { KnownItem } from "./queries.ts";
import { unrelatedQueries } from "./unrelated-queries.ts";

/** The number of passages that a question's search returns, as in a turn of the overlay. */
const HITS_MAX = 5;
/**
 * The highest mean number of passages that the relevance cut-off may keep for a question that the corpus
 * does not answer.
 */
const UNRELATED_MAX = 1.5;
const SMALL_PAGES = 25;
const SMALL_QUESTIONS = 10;

/**
 * The passages that the searches of the benchmark find, separately for questions that the corpus answers and for
 * questions that it does not answer.
 */
interface Found {
  readonly answered: readonly { readonly hit: SearchHit; readonly isRelevant: boolean }[][];
  readonly unrelated: readonly (readonly SearchHit[])[];
}

/**
 * Measures the relevance cut-off, which chooses the passages that the model receives with a question: how many of the
 * relevant passages it keeps, and how many passages it keeps for questions that the manual does not answer.
 */
export function measureCutOff(
  dir: string,
  manual: Corpus,
  pages: readonly Page[],
  items: readonly KnownItem[],
): Figure {
  const whole = searchAll(manual, items);
  const small = buildSmallIndexes(pages, items).map((index, at) => {
    const corpus = new Corpus(join(dir, `small-${at}`), index.pages);
    const found = searchAll(corpus, index.items);
    corpus.close();
    return found;
  });
  const notes = {
    answered: small.flatMap(({ answered }) => answered),
    unrelated: small.flatMap(({ unrelated }) => unrelated),
  };
  const { left } = measure(whole, COVERAGE_MIN);
  return {
    name: "search: passages for a question that the index does not answer",
    value: left.toFixed(2),
    floor: "",
    ratio: "",
    aim: `<= ${UNRELATED_MAX}`,
    isMet: left <= UNRELATED_MAX,
    notes: [
      `${items.length} answered and ${unrelatedQueries.length} unrelated questions, at most ${HITS_MAX} passages each`,
      "smallest coverage: relevant passages kept, passages for an unrelated question (manual; small indexes)",
      ...[0, 0.2, 0.25, 0.28, 0.3, 0.35, 0.4, 0.45, 0.5].map(
        (least) =>
          `${least.toFixed(2)}: ${formatMeasured(measure(whole, least))}; ${formatMeasured(measure(notes, least))}`,
      ),
    ],
  };
}

function searchAll(corpus: Corpus, items: readonly KnownItem[]): Found {
  const searcher = corpus.searcher();
  const search = (query: string) =>
    searcher.search({ query, limit: HITS_MAX, scopes: undefined, queryVector: undefined });
  return {
    answered: items.map(({ query, pages }) =>
      search(query).map((hit) => ({
        hit,
        isRelevant: pages.includes(hit.uri.slice(hit.uri.lastIndexOf("/") + 1)),
      })),
    ),
    unrelated: unrelatedQueries.map((query) => search(query)),
  };
}

/**
 * Returns several small indexes of the size of a folder of notes. Each contains short manual pages, among them the
 * pages that answer ten of the questions.
 */
function buildSmallIndexes(
  pages: readonly Page[],
  items: readonly KnownItem[],
): { readonly pages: readonly Page[]; readonly items: readonly KnownItem[] }[] {
  return [0, 1, 2, 3, 4, 5].map((index) => {
    const some = items.slice(index * SMALL_QUESTIONS, (index + 1) * SMALL_QUESTIONS);
    const wanted = new Set(some.flatMap((item) => item.pages));
    const others = pages.filter((_, at) => at % 13 === index);
    const found = [
      ...pages.filter(({ name }) => wanted.has(name)),
      ...others.filter(({ name }) => !wanted.has(name)),
    ];
    return {
      items: some,
      pages: found.slice(0, Math.max(SMALL_PAGES, wanted.size)).map(({ name, document }) => ({
        name,
        document: { ...document, sections: document.sections.slice(0, 3) },
      })),
    };
  });
}

interface Measured {
  /** The share of the relevant passages that the cut-off keeps. */
  readonly kept: number;
  /** The mean number of passages that the cut-off keeps for an unrelated question. */
  readonly left: number;
}

function measure({ answered, unrelated }: Found, coverageMin: number): Measured {
  const relevant = answered.flat().flatMap(({ hit, isRelevant }) => (isRelevant ? [hit] : []));
  const others = unrelated.flat();
  return {
    kept: selectRelevantHits(relevant, coverageMin).length / relevant.length,
    left: selectRelevantHits(others, coverageMin).length / unrelated.length,
  };
}

function formatMeasured({ kept, left }: Measured): string {
  return `${(kept * 100).toFixed(0)} %, ${left.toFixed(2)}`;
}
