import { isUnspaced, normalizeWord, splitUnspaced } from "../../../../base/tokenize.ts";

/** The approximate length of a snippet, which contains whole words only. */
const SNIPPET_CHARACTERS = 300;
const wordPattern = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;

/**
 * Returns an unchanged part of the passage that contains as many different words of the query as possible. `terms` are
 * the normalised words of the query.
 */
export function extractSnippet(
  text: string,
  terms: ReadonlySet<string>,
  size: number = SNIPPET_CHARACTERS,
): string {
  if (text.length <= size * 1.1) return text;
  const hits: { at: number; end: number; term: string }[] = [];
  for (const found of text.matchAll(wordPattern)) {
    const [word] = found;
    const end = found.index + word.length;
    for (const part of isUnspaced(word) ? splitUnspaced(word) : [word]) {
      const term = normalizeWord(part);
      if (terms.has(term)) hits.push({ at: found.index, end, term });
    }
  }
  return cutOut(text, bestStart(hits, size), size);
}

/**
 * Returns the start of the window that contains the largest number of different words. If there are several such
 * windows, the window with the most occurrences of these words wins.
 */
function bestStart(
  hits: readonly { readonly at: number; readonly end: number; readonly term: string }[],
  size: number,
): number {
  let [best, bestScore] = [0, 0];
  for (const [first, { at }] of hits.entries()) {
    const inside = new Set<string>();
    let last = first;
    for (; last < hits.length && (hits[last]?.end ?? 0) <= at + size; last += 1)
      inside.add(hits[last]?.term ?? "");
    const score = inside.size + (last - first) / 1_000;
    if (score > bestScore) {
      bestScore = score;
      const span = (hits[last - 1]?.end ?? at) - at;
      // The window is placed so that the found words are in the middle of the window.
      best = Math.max(0, at - Math.floor((size - span) / 2));
    }
  }
  return best;
}

function cutOut(text: string, wantedStart: number, size: number): string {
  const start = Math.min(wantedStart, text.length - size);
  let [from, to] = [start, start + size];
  if (from > 0) from = afterGap(text, from);
  if (to < text.length) to = beforeGap(text, to);
  // In a long word, or a script without spaces, there is no space nearby, so the text is cut inside a word.
  if (to - from < size / 2) [from, to] = [start, start + size];
  if (/[\udc00-\udfff]/.test(text[from] ?? "")) from += 1;
  if (/[\ud800-\udbff]/.test(text[to - 1] ?? "")) to -= 1;
  return text.slice(from, to).trim();
}

function afterGap(text: string, at: number): number {
  if (/\s/.test(text[at - 1] ?? "")) return at;
  const found = /\s/.exec(text.slice(at));
  return found ? at + found.index + 1 : at;
}

function beforeGap(text: string, at: number): number {
  if (/\s/.test(text[at] ?? "")) return at;
  const found = /\s\S*$/.exec(text.slice(0, at));
  return found ? found.index : at;
}
