import { stem } from "../text/porter-stemmer.ts";
import { extractBigrams, isUnspaced, splitWords } from "../text/split-words.ts";

/** Words of a query beyond these change no ranking and cost a walk through the index each. */
const WORDS_MAX = 48;
/** Nobody writes a longer word; FTS5 would look for it all the same. */
const WORD_CHARACTERS_MAX = 200;

/** One word of a query, as FTS5 is asked for it. */
export interface QueryWord {
  /** A quoted string of FTS5, in which nothing has a meaning but the words themselves. */
  readonly match: string;
  /** As it stands in the index, for looking up how common it is. */
  readonly term: string;
}

/**
 * The words of a query, each once. Only letters, digits and marks get here, so that no quote, operator
 * or column name of FTS5's language can: the quotes are for words such as AND and NEAR.
 */
export function parseQueryWords(query: string): QueryWord[] {
  const found = new Map<string, QueryWord>();
  const add = (word: string, isPrefix = false) => {
    const term = foldToIndexTerm(word);
    if (word.length <= WORD_CHARACTERS_MAX && !found.has(term))
      found.set(term, { match: `"${word}"${isPrefix ? "*" : ""}`, term });
  };
  for (const word of splitWords(query)) {
    if (!isUnspaced(word)) {
      add(word);
      continue;
    }
    // Without spaces between words a whole sentence is one word to FTS5: its pairs are looked for. A
    // single character stands in the index as the beginning of pairs.
    const pairs = extractBigrams(word);
    for (const pair of pairs) add(pair, Array.from(pair).length === 1);
    const rest = word.replaceAll(/[^a-z0-9]+/gi, " ").trim();
    if (rest !== "") for (const part of rest.split(" ")) add(part);
  }
  return [...found.values()].slice(0, WORDS_MAX);
}

/** As `porter unicode61 remove_diacritics 2` folds it, near enough to look a word up. */
function foldToIndexTerm(word: string): string {
  const folded = word.toLowerCase().normalize("NFD").replaceAll(/\p{M}/gu, "").normalize("NFC");
  return stem(folded);
}
