export interface RankedItem {
  readonly id: number;
  /** The score of the item; a larger score is better. */
  readonly score: number;
}

export interface WeightedRanking {
  /** The items of the ranking, best first. */
  readonly items: readonly RankedItem[];
  readonly weight: number;
}

export interface FusedItem extends RankedItem {
  /**
   * The item's rank in each ranking, counted from 1, in the order of the arguments; null for a ranking without this
   * item.
   */
  readonly ranks: readonly (number | null)[];
}

/**
 * Combines rankings by weighted reciprocal rank (Cormack, Clarke and Buettcher, 2009): an item's score is the sum of
 * `weight / (k + rank)`. Scores of different rankings, such as BM25 and cosine, need not be comparable. A small `k`
 * favours the first ranks. Items with equal scores are ordered by id.
 */
export function fuseRankings(rankings: readonly WeightedRanking[], k: number): FusedItem[] {
  const fused = new Map<number, { score: number; ranks: (number | null)[] }>();
  for (const [ranking, { items, weight }] of rankings.entries())
    for (const [at, { id }] of items.entries()) {
      const item = fused.get(id) ?? { score: 0, ranks: rankings.map(() => null) };
      item.score += weight / (k + at + 1);
      item.ranks[ranking] = at + 1;
      fused.set(id, item);
    }
  return Array.from(fused, ([id, item]) => ({ id, ...item })).toSorted(
    (a, b) => b.score - a.score || a.id - b.id,
  );
}
