import type { RankedItem } from "../../../base/rank-fusion.ts";

/**
 * A tool is returned if its cosine is this number of standard deviations above the mean, because the range of cosines
 * differs between models.
 */
const DEVIATIONS_MIN = 1.5;
const RESULTS_MAX = 10;

/**
 * Returns the tools whose cosines are outliers, best first. The others are left out, because every tool has some
 * cosine to any query.
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
    .map((score, id) => ({ id, score }))
    .filter(({ score }) => score > 0 && score > threshold)
    .toSorted((a, b) => b.score - a.score || a.id - b.id)
    .slice(0, RESULTS_MAX);
}

/** Returns the dot product, which is the cosine of two unit vectors. */
function dotProduct(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
}
