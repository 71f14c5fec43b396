import { normalizeWord, splitWords, tokenize } from "../../../../base/tokenize.ts";

/**
 * The number of words of a query with which a passage is compared: those with the greatest weights. The other words are
 * ignored, because even a relevant passage contains few of the words of a long query. Three words gave better results
 * than four or six in bench/search/cut-off.ts.
 */
const WORDS_MAX = 3;

/**
 * Returns the share of the query's words that the text contains, from 0 to 1: the weight of the words that it contains,
 * relative to the weight of the query's three words with the greatest weights. `weights` has the weight of each word by
 * its term.
 */
export function computeCoverage(weights: ReadonlyMap<string, number>, text: string): number {
  const heaviest = [...weights.values()].toSorted((a, b) => b - a).slice(0, WORDS_MAX);
  const total = sum(heaviest);
  if (total <= 0) return 0;
  const terms = new Set([
    ...splitWords(text).map((word) => normalizeWord(word)),
    ...tokenize(text),
  ]);
  const found = [...weights].flatMap(([term, weight]) => (terms.has(term) ? [weight] : []));
  return Math.min(1, sum(found) / total);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
