import type { RankedItem } from "../../../base/rank-fusion.ts";

/**
 * The weight of the semantic ranking relative to the lexical ranking, whose weight is 1: the largest weight at which
 * the embedding model all-MiniLM-L6-v2 does not worsen the results for the queries and wishes by which the weight was
 * chosen. An embedder that only compares letters costs 0.01 of nDCG@10.
 */
export const SEMANTIC_WEIGHT = 0.3;
/**
 * A tool is returned if the cosine of its vector and the query's vector exceeds the mean cosine of all tools by this
 * number of standard deviations. A fixed minimum of the cosine would not work, because the range of cosines differs
 * between models.
 */
const DEVIATIONS_MIN = 1.5;
const OUTLIERS_MAX = 10;

/**
 * Returns the tools whose cosines are outliers, best first, each with the distance from the mean cosine as its score.
 * All other tools are left out, because every tool has some cosine to any query.
 */
export function rankByCosine(
  query: Float32Array,
  tools: readonly Float32Array[],
): readonly RankedItem[] {
  const cosines = tools.map((tool) => dotProduct(query, tool));
  const mean = cosines.reduce((sum, cosine) => sum + cosine, 0) / Math.max(cosines.length, 1);
  const variance =
    cosines.reduce((sum, cosine) => sum + (cosine - mean) ** 2, 0) / Math.max(cosines.length, 1);
  const threshold = mean + DEVIATIONS_MIN * Math.sqrt(variance);
  return cosines
    .flatMap((cosine, id) =>
      cosine > 0 && cosine > threshold ? [{ id, score: cosine - mean }] : [],
    )
    .toSorted(byScore)
    .slice(0, OUTLIERS_MAX);
}

/**
 * Divides the scores of each ranking by the best score of that ranking, and adds the scores of both rankings. Unlike in
 * a fusion of ranks, the difference between the scores of the first tools counts: a tool that shares most words with
 * the query stays first.
 */
export function fuseScores(
  lexical: readonly RankedItem[],
  semantic: readonly RankedItem[],
): readonly RankedItem[] {
  const fused = new Map<number, number>();
  const add = (items: readonly RankedItem[], weight: number) => {
    const best = items[0]?.score ?? 1;
    for (const { id, score } of items)
      fused.set(id, (fused.get(id) ?? 0) + (weight * score) / best);
  };
  add(lexical, 1);
  add(semantic, SEMANTIC_WEIGHT);
  return Array.from(fused, ([id, score]) => ({ id, score })).toSorted(byScore);
}

export function byScore(a: RankedItem, b: RankedItem): number {
  return b.score - a.score || a.id - b.id;
}

/** Returns the dot product, which is the cosine of two unit vectors. */
function dotProduct(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
}
