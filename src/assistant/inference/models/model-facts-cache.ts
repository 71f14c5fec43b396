import { LRUCache } from "lru-cache";
import type { InferenceEngine, ModelFacts } from "../inference-engine.ts";
import type { KnownModel } from "./known-models.ts";

/** Facts of this many files are kept; a folder of models is smaller. */
const ENTRIES_MAX = 256;

/** What files say of themselves, read once for each state of a file. */
export class ModelFactsCache {
  readonly #engine: InferenceEngine;
  readonly #facts = new LRUCache<string, Promise<ModelFacts>>({ max: ENTRIES_MAX });

  constructor(options: { readonly engine: InferenceEngine }) {
    this.#engine = options.engine;
  }

  /** Rejects as `Engine.inspect` does; a failure is not kept. */
  async get(known: KnownModel): Promise<ModelFacts> {
    const key = JSON.stringify([known.id, known.path, known.modifiedMs]);
    const cached = this.#facts.get(key);
    if (cached) return cached;
    // Shared by all who ask, so that none of them may abort it.
    const reading = this.#engine.inspect(known, new AbortController().signal);
    this.#facts.set(key, reading);
    try {
      return await reading;
    } catch (error) {
      this.#facts.delete(key);
      throw error;
    }
  }
}
