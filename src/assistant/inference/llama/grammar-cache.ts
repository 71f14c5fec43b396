import { LRUCache } from "lru-cache";
import {
  type Llama,
  type LlamaGrammar,
  LlamaGrammarEvaluationState,
  type LlamaModel,
} from "node-llama-cpp";

/** Compiled grammars are kept for the schemas that are in use now; one has up to 256 KiB of text. */
const CACHED_GRAMMARS_MAX = 64;

/** Grammars by their text, the least recently used forgotten first. */
export class GrammarCache {
  readonly #llama: Llama;
  readonly #model: LlamaModel;
  readonly #grammars = new LRUCache<string, Promise<LlamaGrammar>>({ max: CACHED_GRAMMARS_MAX });

  constructor(llama: Llama, model: LlamaModel) {
    this.#llama = llama;
    this.#model = model;
  }

  /** A state at the beginning of the grammar. Rejects where llama.cpp cannot read the text. */
  async createState(text: string): Promise<LlamaGrammarEvaluationState> {
    const known = this.#grammars.get(text);
    const grammar = known ?? this.#llama.createGrammar({ grammar: text });
    this.#grammars.set(text, grammar);
    try {
      return new LlamaGrammarEvaluationState({ model: this.#model, grammar: await grammar });
    } catch (error) {
      this.#grammars.delete(text);
      throw error;
    }
  }
}
