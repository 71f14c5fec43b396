import { distance } from "fastest-levenshtein";

/**
 * Returns the candidate that the user most likely meant, or undefined if no candidate is similar enough. A candidate
 * may differ by two typos, or in a long word by a third of its letters. Differences in case and hyphens do not count.
 */
export function findNearest(word: string, candidates: Iterable<string>): string | undefined {
  // Longer names are not compared, because the comparison takes quadratic time, and no key of Berth is that long.
  if (word.length > 100) return undefined;
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const slips = countTypos(normalizeWord(word), normalizeWord(candidate));
    // At most one typo is tolerated in a word of three letters, because two typos would give an entirely different
    // word.
    if (slips < bestDistance && slips < Math.max(2, candidate.length - 1)) {
      best = candidate;
      bestDistance = slips;
    }
  }
  return best;
}

/** Returns the number of typos between two words. Two swapped letters count as one typo. */
export function countTypos(a: string, b: string): number {
  const slips = distance(a, b);
  return slips === 2 && hasSameLetters(a, b) ? 1 : slips;
}

export function hasSameLetters(a: string, b: string): boolean {
  return a.length === b.length && sortLetters(a) === sortLetters(b);
}

function sortLetters(text: string): string {
  return text.split("").toSorted().join("");
}

function normalizeWord(text: string): string {
  return text.toLowerCase().replaceAll(/[-_\s]/g, "");
}

/** Returns `; did you mean "image"?` for the nearest candidate, or an empty text if no candidate is near. */
export function formatSuggestion(word: string, candidates: Iterable<string>): string {
  const near = findNearest(word, candidates);
  return near === undefined ? "" : `; did you mean "${near}"?`;
}
