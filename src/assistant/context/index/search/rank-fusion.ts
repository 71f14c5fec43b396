import type { RankedPassage } from "./lexical-search.ts";

/** Smaller: the first places count for more. Cormack, Clarke and Buettcher (2009) took 60. */
export const FUSION_K = 60;

export interface FusedPassage {
  readonly id: number;
  readonly score: number;
  /** Place in each ranking, from 1; null where it is not in it. */
  readonly lexical: number | null;
  readonly cosine: number | null;
}

/**
 * Two rankings as one, by their places alone: what BM25 and cosines measure cannot be added. `weight` is
 * what a place in the cosine ranking counts for against the same place in the other.
 */
export function fuseRankings(
  lexical: readonly RankedPassage[],
  cosine: readonly RankedPassage[],
  weight: number,
  k: number = FUSION_K,
): FusedPassage[] {
  const places = new Map<number, { lexical: number | null; cosine: number | null }>();
  for (const [at, { id }] of lexical.entries()) places.set(id, { lexical: at + 1, cosine: null });
  for (const [at, { id }] of cosine.entries())
    places.set(id, { lexical: places.get(id)?.lexical ?? null, cosine: at + 1 });
  const share = (place: number | null) => (place === null ? 0 : 1 / (k + place));
  return Array.from(places, ([id, place]) => ({
    id,
    ...place,
    score: share(place.lexical) + weight * share(place.cosine),
  })).toSorted((a, b) => b.score - a.score || a.id - b.id);
}
