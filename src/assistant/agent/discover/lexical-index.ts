import MiniSearch from "minisearch";
import type { SearchableTool } from "./searchable-tool.ts";
import { findSynonyms } from "./synonyms.ts";
import { tokenize, tokenizeQuery } from "./tokenize.ts";

export interface RankedTool {
  /** The place in the list of tools. */
  readonly index: number;
  readonly score: number;
}

const fields = ["name", "title", "description", "properties", "appName"] as const;

/**
 * What a word weighs by where it stands: arguments are named alike everywhere. This and the next were chosen on
 * every other query of test/fixtures/discover, and tried on the rest.
 */
const weights = { name: 1, title: 1.5, description: 1.5, properties: 0.5, appName: 1 };

/** A word that only stands for the one that was said. */
const SYNONYM_WEIGHT = 0.15;

/** A word of no tool may be a slip of the keyboard; of short ones everything is one letter away. */
const TYPO_LETTERS_MIN = 5;
const TYPO_WEIGHT = 0.1;

/** BM25+ over the words of tools. */
export class LexicalIndex {
  readonly #search: MiniSearch;
  readonly #words: ReadonlySet<string>;

  constructor(tools: readonly SearchableTool[]) {
    this.#search = new MiniSearch({
      fields: [...fields],
      tokenize: tokenize,
      processTerm: (term) => term,
    });
    const documents = tools.map((tool, id) => ({ ...pickFields(tool), id }));
    this.#search.addAll(documents);
    this.#words = new Set(
      documents.flatMap((document) => fields.flatMap((field) => tokenize(document[field]))),
    );
  }

  /** Tools that have a word of the query, or one that stands for it; best first, ties in the order of the tools. */
  rank(query: string): readonly RankedTool[] {
    const said = tokenizeQuery(query);
    if (said.length === 0) return [];
    const terms = new Map<string, number>(said.map((term) => [term, 1]));
    for (const term of said) {
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
      .map(({ id, score }) => ({ index: Number(id), score }))
      .toSorted((a, b) => b.score - a.score || a.index - b.index);
  }
}

function pickFields(tool: SearchableTool): Record<(typeof fields)[number], string> {
  const { name, title, description, properties, appName } = tool;
  return { name, title, description, properties, appName };
}
