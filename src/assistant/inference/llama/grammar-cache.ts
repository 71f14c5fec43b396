import { LRUCache } from "lru-cache";
import {
  type Llama,
  type LlamaGrammar,
  LlamaGrammarEvaluationState,
  type LlamaModel,
} from "node-llama-cpp";

/** The number of cached grammars, larger than the number in use at a time. The text of each has up to 256 KiB. */
const CACHED_GRAMMARS_MAX = 64;

/** Caches compiled grammars by their text. */
export class GrammarCache {
  readonly #llama: Llama;
  readonly #model: LlamaModel;
  readonly #grammars = new LRUCache<string, Promise<LlamaGrammar>>({ max: CACHED_GRAMMARS_MAX });

  constructor(llama: Llama, model: LlamaModel) {
    this.#llama = llama;
    this.#model = model;
  }

  /** Creates a state at the start of the grammar. Rejects if llama.cpp cannot parse the text. */
  async createState(text: string): Promise<LlamaGrammarEvaluationState> {
    const grammar = this.#grammars.get(text) ?? this.#llama.createGrammar({ grammar: text });
    this.#grammars.set(text, grammar);
    try {
      return new LlamaGrammarEvaluationState({ model: this.#model, grammar: await grammar });
    } catch (error) {
      this.#grammars.delete(text);
      throw error;
    }
  }
}
