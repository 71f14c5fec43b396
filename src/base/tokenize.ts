import { stemmer } from "stemmer";

/** Words longer than this are not stemmed, as in FTS5's `porter` tokenizer. */
const STEMMED_CHARACTERS_MAX = 64;

/**
 * Matches a word as FTS5's tokenizer `unicode61` defines it: letters, digits, marks and private-use characters. All
 * other characters separate words.
 */
const wordPattern = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;
/** Matches characters of scripts without spaces between words, and of Hangul, which attaches particles to words. */
const unspacedScripts =
  "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}" +
  "\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}ー々]+";
const unspacedRuns = new RegExp(unspacedScripts, "gu");
const hasUnspaced = new RegExp(unspacedScripts, "u");
const camelCaseBoundary = /\p{Ll}\p{Lu}|\p{Lu}\p{Lu}\p{Ll}/u;

/**
 * Splits a text into normalized terms: identifiers such as `createEvent` and `task_add` are split into their parts,
 * and scripts without spaces into pairs of characters. A term that occurs twice is returned twice.
 */
export function tokenize(text: string): string[] {
  return splitWords(text).flatMap((word) => {
    if (isUnspaced(word)) return splitUnspaced(word).map(normalizeWord);
    const parts = splitCamelCase(word);
    return (parts.length > 0 ? parts : [word]).map(normalizeWord);
  });
}

/** Splits a text into words exactly as FTS5's `unicode61` tokenizer does. */
export function splitWords(text: string): string[] {
  return text.match(wordPattern) ?? [];
}

/** Returns the term that FTS5 stores for a word: lower case, without accents, reduced to its Porter stem. */
export function normalizeWord(word: string): string {
  const folded = word.toLowerCase().normalize("NFD").replaceAll(/\p{M}/gu, "").normalize("NFC");
  return folded.length > STEMMED_CHARACTERS_MAX ? folded : stemmer(folded);
}

/** Returns true if the word has at least one character of a script without spaces. */
export function isUnspaced(word: string): boolean {
  return hasUnspaced.test(word);
}

/** Splits a word of a script without spaces into pairs of characters, followed by the Latin words that it contains. */
export function splitUnspaced(word: string): string[] {
  return [...extractBigrams(word), ...(word.match(/[a-z0-9]+/gi) ?? [])];
}

/**
 * Returns the pairs of neighbouring characters of every run of characters of a script that has no spaces between
 * words. A run of one character is returned as it is.
 */
export function extractBigrams(text: string): string[] {
  const found: string[] = [];
  for (const [run] of text.matchAll(unspacedRuns)) {
    const characters = Array.from(run);
    if (characters.length === 1) found.push(run);
    for (let at = 0; at + 1 < characters.length; at += 1)
      found.push(`${characters[at] ?? ""}${characters[at + 1] ?? ""}`);
  }
  return found;
}

/**
 * Splits `parseHttpHeader` into `parse`, `Http` and `Header`. Returns an empty list for a word that has only one
 * part.
 */
export function splitCamelCase(word: string): string[] {
  if (!camelCaseBoundary.test(word)) return [];
  return word
    .replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .split(" ");
}
