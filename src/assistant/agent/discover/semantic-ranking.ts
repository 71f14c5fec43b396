import type { RankedItem } from "../../../base/rank-fusion.ts";

/** Cosines are told apart by how far they stand out: how large they are differs from model to model. */
const DEVIATIONS_MIN = 1.5;
const RESULTS_MAX = 10;

/**
 * The tools whose vectors are nearest to the query's, best first: only those that stand out from the others, for
 * every tool has some cosine.
 */
export function rankByCosine(
  query: Float32Array,
  tools: readonly Float32Array[],
): readonly RankedItem[] {
  const cosines = tools.map((tool) => dotProduct(query, tool));
  const mean = cosines.reduce((sum, cosine) => sum + cosine, 0) / Math.max(cosines.length, 1);
  const variance =
    cosines.reduce((sum, cosine) => sum + (cosine - mean) ** 2, 0) / Math.max(cosines.length, 1);
  const least = mean + DEVIATIONS_MIN * Math.sqrt(variance);
  return cosines
    .map((score, id) => ({ id, score }))
    .filter(({ score }) => score > 0 && score > least)
    .toSorted((a, b) => b.score - a.score || a.id - b.id)
    .slice(0, RESULTS_MAX);
}

/** Unit vectors, as the port promises. */
function dotProduct(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
}
