import type { SearchHit } from "../context/port.ts";

/** The smallest `coverage` of a passage that is relevant, chosen by the measurements in docs/context.md. */
export const COVERAGE_MIN = 0.28;

/**
 * Returns the passages that are relevant for a question: those that contain enough of its words, and the one whose
 * meaning is closest to the question, which may use other words. Other passages would distract the model, and with a
 * remote model they would be sent to a provider without need.
 */
export function selectRelevantHits(
  hits: readonly SearchHit[],
  coverageMin: number = COVERAGE_MIN,
): readonly SearchHit[] {
  return hits.filter(({ coverage, parts }) => coverage >= coverageMin || parts.cosine === 1);
}
