import MiniSearch from "minisearch";
import type { RankedItem } from "../../../base/rank-fusion.ts";
import { stopTerms } from "../../../base/stop-terms.ts";
import { tokenize } from "../../../base/tokenize.ts";
import type { SearchableTool } from "./searchable-tool.ts";
import { findSynonyms } from "./synonyms.ts";

/** Characters of a query beyond this number are ignored. */
export const QUERY_CHARS_MAX = 1000;

const fields = ["name", "title", "description", "properties", "appName"] as const;

/**
 * The weight of a word in each field. Words in argument names weigh little, because many tools name their arguments
 * alike. These weights and the synonym weight were chosen on every second query of test/fixtures/discover and tested
 * on the others.
 */
const weights = { name: 1, title: 1.5, description: 1.5, properties: 0.5, appName: 1 };

/** The weight of a synonym of a word in the query. */
const SYNONYM_WEIGHT = 0.15;

/** The minimum length of a word for which typing errors are considered. Short words are too similar to each other. */
const TYPO_LETTERS_MIN = 5;
const TYPO_WEIGHT = 0.1;

/** Ranks tools by BM25+. */
export class LexicalIndex {
  readonly #search: MiniSearch;
  readonly #words: ReadonlySet<string>;

  constructor(tools: readonly SearchableTool[]) {
    this.#search = new MiniSearch({
      fields: [...fields],
      tokenize,
      processTerm: (term) => term,
    });
    const documents = tools.map((tool, id) => ({ ...pickFields(tool), id }));
    this.#search.addAll(documents);
    this.#words = new Set(
      documents.flatMap((document) => fields.flatMap((field) => tokenize(document[field]))),
    );
  }

  /**
   * Returns the tools whose texts contain a term of the query or a synonym of such a term, best first. The result
   * identifies each tool by its index in the list of tools.
   */
  rank(query: string): readonly RankedItem[] {
    const queryTerms = tokenizeQuery(query);
    if (queryTerms.length === 0) return [];
    const terms = new Map<string, number>(queryTerms.map((term) => [term, 1]));
    for (const term of queryTerms) {
      for (const other of findSynonyms(term)) {
        if (!terms.has(other)) terms.set(other, SYNONYM_WEIGHT);
      }
    }
    const found = this.#search.search([...terms.keys()].join(" "), {
      tokenize: (text) => text.split(" "),
      boost: weights,
      boostTerm: (term) => terms.get(term) ?? 1,
      fuzzy: (term) => (this.#words.has(term) || term.length < TYPO_LETTERS_MIN ? 0 : 1),
      weights: { fuzzy: TYPO_WEIGHT, prefix: 0 },
    });
    return found
      .map(({ id, score }) => ({ id: Number(id), score }))
      .toSorted((a, b) => b.score - a.score || a.id - b.id);
  }
}

/**
 * Returns the distinct terms of a query without its stop words. If the query consists of stop words only, returns these
 * words.
 */
export function tokenizeQuery(query: string): string[] {
  const terms = [...new Set(tokenize(query.slice(0, QUERY_CHARS_MAX)))];
  const kept = terms.filter((term) => !stopTerms.has(term));
  return kept.length > 0 ? kept : terms;
}

function pickFields(tool: SearchableTool): Record<(typeof fields)[number], string> {
  const { name, title, description, properties, appName } = tool;
  return { name, title, description, properties, appName };
}
