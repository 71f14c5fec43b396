import { stem } from "../text/porter-stemmer.ts";
import { extractBigrams, isUnspaced, splitCamelCase, splitWords } from "../text/split-words.ts";

/** A longer run of letters is a key or a picture in base64, and no word. */
const WORD_MAX = 40;

/** The terms of a text as the vectors count them, repeated as often as they occur. */
export function termsOf(text: string): string[] {
  const found: string[] = [];
  for (const word of splitWords(text)) {
    if (word.length > WORD_MAX) continue;
    if (isUnspaced(word)) found.push(...extractBigrams(word));
    else {
      for (const part of [word, ...splitCamelCase(word)]) {
        const term = stem(plainLetters(part));
        if (term.length > 1 && !/^\d+$/.test(term)) found.push(term);
      }
    }
  }
  return found;
}

/** Small letters without marks: `Größe` is `grosse` to nobody, but `große` is `GROSSE`'s neighbour `große`. */
function plainLetters(word: string): string {
  const lower = word.toLowerCase();
  return /^[a-z0-9]*$/.test(lower) ? lower : lower.normalize("NFD").replaceAll(/\p{M}/gu, "");
}
