/** Measures how well rankings match labelled queries: the means over all queries, from 0 to 1. */
export interface Relevance {
  /** The nDCG@10 with a gain of 3 for the best tool and of 1 for other relevant tools, discounted by rank. */
  readonly ndcgAt10: number;
  /** The share of queries for which the ranking has the best tool first. */
  readonly recallAt1: number;
  /** The share of queries for which the ranking has the best tool among the first five. */
  readonly recallAt5: number;
}

export interface Judged {
  /** The names of the tools that are relevant to a query, by the query's label; the best tool is first. */
  readonly wanted: readonly string[];
  /** The names of the tools that the search has found for the query, highest rank first. */
  readonly ranked: readonly string[];
}

export function relevanceOf(judged: readonly Judged[]): Relevance {
  const mean = (score: (one: Judged) => number) =>
    judged.reduce((sum, one) => sum + score(one), 0) / Math.max(judged.length, 1);
  return {
    ndcgAt10: mean(ndcg),
    recallAt1: mean(({ wanted, ranked }) => (ranked[0] === wanted[0] ? 1 : 0)),
    recallAt5: mean(({ wanted, ranked }) => (ranked.slice(0, 5).includes(wanted[0] ?? "") ? 1 : 0)),
  };
}

function ndcg({ wanted, ranked }: Judged): number {
  const gainOf = (name: string) => {
    const place = wanted.indexOf(name);
    return place === 0 ? 3 : place > 0 ? 1 : 0;
  };
  const ideal = discounted(wanted.map(gainOf));
  return ideal === 0 ? 0 : discounted(ranked.slice(0, 10).map(gainOf)) / ideal;
}

function discounted(gains: readonly number[]): number {
  return gains.reduce((sum, gain, rank) => sum + gain / Math.log2(rank + 2), 0);
}
