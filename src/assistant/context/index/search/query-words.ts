import { isUnspaced, normalizeWord, splitUnspaced, splitWords } from "../../../../base/tokenize.ts";

/**
 * At most this number of words of a query is used: more words change the ranking little, and each needs a lookup in the
 * index.
 */
const WORDS_MAX = 48;
/**
 * The maximum length of a query word. Texts hardly ever contain longer words, so a lookup in FTS5 is not worth its
 * time.
 */
const WORD_CHARACTERS_MAX = 200;

export interface QueryWord {
  /** The word as a quoted string of FTS5's query language. */
  readonly match: string;
  /** The word as the index stores it. */
  readonly term: string;
}

/**
 * Splits a query into words without repetitions. Words have only letters, digits and marks, so a query cannot contain
 * quotes, operators or column names of FTS5's query language. Each word is quoted, because FTS5 would read words such
 * as AND and NEAR as operators.
 */
export function parseQueryWords(query: string): QueryWord[] {
  const found = new Map<string, QueryWord>();
  // FTS5 stores a sentence of a script without spaces as one word. So the index also contains each pair of characters
  // of the sentence as a hidden word.
  for (const word of splitWords(query))
    for (const part of isUnspaced(word) ? splitUnspaced(word) : [word]) {
      const term = normalizeWord(part);
      if (part.length > WORD_CHARACTERS_MAX || found.has(term)) continue;
      // A single character is searched as a prefix, because the index contains it only as the first of a pair.
      const isPrefix = isUnspaced(part) && Array.from(part).length === 1;
      found.set(term, { match: `"${part}"${isPrefix ? "*" : ""}`, term });
    }
  return [...found.values()].slice(0, WORDS_MAX);
}
