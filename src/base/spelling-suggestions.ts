import { distance } from "fastest-levenshtein";

/**
 * The candidate that a person most likely meant, or undefined where none is near: at most two
 * slips, or a third of the word for long ones. Case and hyphens do not count as slips.
 */
export function findNearest(word: string, candidates: Iterable<string>): string | undefined {
  // Longer than any key of ours: not worth the quadratic comparison.
  if (word.length > 100) return undefined;
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const slips = countTypos(normalizeWord(word), normalizeWord(candidate));
    // A word of three letters that differs in two is another word.
    if (slips < bestDistance && slips < Math.max(2, candidate.length - 1)) {
      best = candidate;
      bestDistance = slips;
    }
  }
  return best;
}

/** Two letters that changed places are one slip, not two. */
function countTypos(a: string, b: string): number {
  const slips = distance(a, b);
  return slips === 2 && sortLetters(a) === sortLetters(b) ? 1 : slips;
}

function sortLetters(text: string): string {
  return text.split("").toSorted().join("");
}

function normalizeWord(text: string): string {
  return text.toLowerCase().replaceAll(/[-_\s]/g, "");
}

/** `; did you mean "image"?` or nothing. */
export function formatSuggestion(word: string, candidates: Iterable<string>): string {
  const near = findNearest(word, candidates);
  return near === undefined ? "" : `; did you mean "${near}"?`;
}
