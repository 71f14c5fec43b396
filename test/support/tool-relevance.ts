/** How well rankings meet labelled queries: the mean over all of them, from 0 to 1. */
export interface Relevance {
  /** Gains of 3 for the first wanted one and 1 for others, discounted by rank. */
  readonly ndcgAt10: number;
  /** How often the first one is the one that is wanted most. */
  readonly recallAt1: number;
  /** How often it is among the first five. */
  readonly recallAt5: number;
}

export interface Judged {
  /** Names, the best first. */
  readonly wanted: readonly string[];
  /** Names as they were ranked. */
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
