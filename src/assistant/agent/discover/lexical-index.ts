import MiniSearch from "minisearch";
import type { RankedItem } from "../../../base/rank-fusion.ts";
import { stopTerms } from "../../../base/stop-terms.ts";
import { isUnspaced, splitWords, tokenize } from "../../../base/tokenize.ts";
import { conceptGroups, findConcepts } from "./concepts.ts";
import { KnownWords } from "./known-words.ts";
import { type SearchableTool, searchableFields } from "./searchable-tool.ts";

/** Characters of a query beyond this number are ignored. */
export const QUERY_CHARS_MAX = 1000;

/**
 * The weight of a word in each field. Words in argument names weigh little, because many tools name their arguments
 * alike. These and the other weights were chosen so that the search finds the right tools for the queries and for two
 * thirds of the wishes in test/fixtures/discover. Small changes of a weight hardly change the results.
 */
const fieldWeights = {
  name: 2,
  title: 1.5,
  description: 1.5,
  properties: 0.5,
  appName: 2,
  keywords: 1,
  examples: 1,
};

/**
 * BM25 without the lower bound of BM25+: otherwise a long text would match every query a little, and a tool that lists
 * many words would be among the results of every query.
 */
const bm25 = { k: 1.2, b: 0.7, d: 0 };

/** The weights of terms that are not words of the query. A word of the query has the weight 1. */
const CONCEPT_WEIGHT = 0.7;
const GUESS_WEIGHT = 0.5;
const WORD_PAIR_WEIGHT = 0.3;
/** At most this number of unknown words of a query is corrected, because each is compared with all known words. */
const GUESSED_MAX = 10;

/** Ranks tools by BM25, by the words and the concepts that their texts share with a query. */
export class LexicalIndex {
  readonly #search: MiniSearch;
  readonly #words = new KnownWords();

  constructor(tools: readonly SearchableTool[]) {
    for (const group of conceptGroups) this.#words.add(group);
    for (const tool of tools) {
      for (const field of searchableFields) if (field !== "name") this.#words.add(tool[field]);
    }
    const names = tools.map(({ name }) => this.#divideName(name));
    for (const name of names) this.#words.add(name);
    this.#search = new MiniSearch({
      fields: [...searchableFields],
      tokenize: analyzeText,
      processTerm: (term) => term,
    });
    this.#search.addAll(tools.map((tool, id) => ({ ...tool, name: names[id], id })));
  }

  /**
   * Returns the tools that share a term with the query, best first. The result identifies each tool by its index in
   * the list of tools.
   */
  rank(query: string): readonly RankedItem[] {
    const terms = this.#weighTerms(query.slice(0, QUERY_CHARS_MAX));
    if (terms.size === 0) return [];
    const found = this.#search.search([...terms.keys()].join(" "), {
      tokenize: (text) => text.split(" "),
      boost: fieldWeights,
      boostTerm: (term) => terms.get(term) ?? 1,
      bm25,
    });
    return found
      .map(({ id, score }) => ({ id: Number(id), score }))
      .toSorted((a, b) => b.score - a.score || a.id - b.id);
  }

  /** Returns the terms of a query, each with its weight. */
  #weighTerms(query: string): ReadonlyMap<string, number> {
    const unknown = splitWords(query).filter((word) => !this.#words.has(word) && !isUnspaced(word));
    const guesses = unknown.slice(0, GUESSED_MAX).flatMap((word) => this.#guessTerms(word));
    const concepts = findConcepts([...tokenize(query), ...guesses]);
    return new Map([
      ...weigh(listWordPairs(query), WORD_PAIR_WEIGHT),
      ...weigh(concepts, CONCEPT_WEIGHT),
      ...weigh(guesses, GUESS_WEIGHT),
      ...weigh(tokenizeQuery(query), 1),
    ]);
  }

  /** Returns terms that an unknown word may stand for. */
  #guessTerms(word: string): readonly string[] {
    const parts = this.#words.divide(word);
    return parts.length > 0 ? parts : this.#words.correct(word);
  }

  /** Adds the parts of unknown compounds to a name: `listapps` becomes `listapps list app`. */
  #divideName(name: string): string {
    const unknown = splitWords(name).filter((word) => !this.#words.has(word));
    return [name, ...unknown.flatMap((word) => this.#words.divide(word))].join(" ");
  }
}

function weigh(terms: readonly string[], weight: number): [string, number][] {
  return terms.map((term) => [term, weight]);
}

/**
 * Returns the distinct terms of a query without its stop words. If the query consists of stop words only, returns these
 * words.
 */
export function tokenizeQuery(query: string): string[] {
  const terms = [...new Set(tokenize(query))];
  const kept = terms.filter((term) => !stopTerms.has(term));
  return kept.length > 0 ? kept : terms;
}

/** Returns the terms of a tool's text: words, concepts, and in an example also pairs of words. */
function analyzeText(text: string, field?: string): string[] {
  const terms = tokenize(text);
  const pairs = field === "examples" ? text.split("\n").flatMap(listWordPairs) : [];
  return [...terms, ...findConcepts(terms), ...pairs];
}

/**
 * Returns a term for each pair of neighbouring words, including stop words. No single word equals such a term. The
 * pairs distinguish requests that consist only of common words, such as `what am I doing`.
 */
function listWordPairs(text: string): string[] {
  const terms = ["^", ...tokenize(text)];
  return terms.slice(1).map((term, index) => `${terms[index]}_${term}`);
}
