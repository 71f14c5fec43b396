import { LRUCache } from "lru-cache";
import type { InferenceEngine, ModelFacts } from "../inference-engine.ts";
import type { KnownModel } from "./known-models.ts";

/** The number of cached files, more than a typical folder of models has. */
const ENTRIES_MAX = 256;

/** Caches the facts of model files by path and modification time. */
export class ModelFactsCache {
  readonly #engine: InferenceEngine;
  readonly #facts = new LRUCache<string, Promise<ModelFacts>>({ max: ENTRIES_MAX });

  constructor(options: { readonly engine: InferenceEngine }) {
    this.#engine = options.engine;
  }

  /**
   * Returns the ModelFacts of a model file, such as its architecture and memory need. Rejects as
   * `InferenceEngine.inspect` does; a failure is not cached.
   */
  async get(known: KnownModel): Promise<ModelFacts> {
    const key = JSON.stringify([known.id, known.path, known.modifiedMs, known.chatTemplate]);
    const cached = this.#facts.get(key);
    if (cached) return cached;
    // The result is shared, so no single caller may abort the read.
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
