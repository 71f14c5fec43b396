import type { RankedTool } from "./lexical-index.ts";

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
): readonly RankedTool[] {
  const cosines = tools.map((tool) => dotProduct(query, tool));
  const mean = cosines.reduce((sum, cosine) => sum + cosine, 0) / Math.max(cosines.length, 1);
  const variance =
    cosines.reduce((sum, cosine) => sum + (cosine - mean) ** 2, 0) / Math.max(cosines.length, 1);
  const least = mean + DEVIATIONS_MIN * Math.sqrt(variance);
  return cosines
    .map((score, index) => ({ index, score }))
    .filter(({ score }) => score > 0 && score > least)
    .toSorted((a, b) => b.score - a.score || a.index - b.index)
    .slice(0, RESULTS_MAX);
}

/** Unit vectors, as the port promises. */
function dotProduct(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
}

/** Less than the usual 60: with a handful of tools a first place is worth more than two third ones. */
const RANK_OFFSET = 3;
/**
 * What was said in as many words goes before what is near to it. Nothing is known of how good an embedder is: at
 * this weight a bad one, of letters only, costs one hundredth of nDCG@10, and at 0.6 four.
 */
const SEMANTIC_WEIGHT = 0.3;

/** Both rankings as one, by reciprocal rank; ties in the order of the tools. */
export function fuseRankings(
  lexical: readonly RankedTool[],
  semantic: readonly RankedTool[],
): readonly RankedTool[] {
  const scores = new Map<number, number>();
  const add = (ranked: readonly RankedTool[], weight: number) => {
    for (const [rank, { index }] of ranked.entries()) {
      scores.set(index, (scores.get(index) ?? 0) + weight / (RANK_OFFSET + rank + 1));
    }
  };
  add(lexical, 1);
  add(semantic, SEMANTIC_WEIGHT);
  return [...scores]
    .map(([index, score]) => ({ index, score }))
    .toSorted((a, b) => b.score - a.score || a.index - b.index);
}
