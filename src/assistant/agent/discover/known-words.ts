import { countTypos, hasSameLetters } from "../../../base/spelling-suggestions.ts";
import { normalizeWord, splitCamelCase, splitWords } from "../../../base/tokenize.ts";

/** In a word shorter than this only swapped letters are corrected, because short words are too similar to each other. */
const ANY_TYPO_LETTERS_MIN = 5;
/** In a word of at least this length two typing errors are corrected. */
const TWO_TYPOS_LETTERS_MIN = 9;
const PART_LETTERS_MIN = 3;
/** The maximum length of a word that is divided or corrected. Both take time that grows with the length of the word. */
const LETTERS_MAX = 40;

/**
 * The words that occur in the texts of tools. A word of a request that is not among them is corrected to one of them,
 * or divided into two of them.
 */
export class KnownWords {
  /** Maps each known word in lower case to the term that `tokenize` makes of it. */
  readonly #terms = new Map<string, string>();
  readonly #known = new Set<string>();

  add(text: string): void {
    for (const word of splitWords(text)) {
      const parts = splitCamelCase(word);
      for (const part of parts.length > 0 ? parts : [word]) {
        const term = normalizeWord(part);
        this.#terms.set(part.toLowerCase(), term);
        this.#known.add(term);
      }
    }
  }

  has(word: string): boolean {
    return this.#known.has(normalizeWord(word));
  }

  /** Returns the terms of two known words, such as `task` and `list`, if the word consists of them; else none. */
  divide(word: string): readonly string[] {
    if (word.length > LETTERS_MAX) return [];
    for (let at = PART_LETTERS_MIN; at <= word.length - PART_LETTERS_MIN; at += 1) {
      const parts = [word.slice(0, at), word.slice(at)];
      if (parts.every((part) => this.has(part))) return parts.map(normalizeWord);
    }
    return [];
  }

  /**
   * Returns the terms of the known words that the user most likely meant by a misspelt word. Only words that begin with
   * the same letter as the misspelt word are considered.
   */
  correct(misspelt: string): readonly string[] {
    const word = misspelt.toLowerCase();
    if (word.length > LETTERS_MAX) return [];
    const typosMax = word.length < TWO_TYPOS_LETTERS_MIN ? 1 : 2;
    const near = [...this.#terms]
      .filter(([known]) => known[0] === word[0] && isComparable(word, known, typosMax))
      .map(([known, term]) => ({ term, typos: countTypos(word, known) }));
    const fewest = Math.min(typosMax, ...near.map(({ typos }) => typos));
    return [...new Set(near.flatMap(({ term, typos }) => (typos === fewest ? [term] : [])))];
  }
}

function isComparable(word: string, known: string, typosMax: number): boolean {
  return word.length < ANY_TYPO_LETTERS_MIN
    ? hasSameLetters(word, known)
    : Math.abs(word.length - known.length) <= typosMax;
}
