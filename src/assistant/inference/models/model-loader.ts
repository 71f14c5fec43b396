import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { InferenceEngine, LoadedModel } from "../inference-engine.ts";
import { CoreArbiter } from "./core-arbiter.ts";
import { getMemoryLimit } from "./known-models.ts";
import type { MemoryBudget } from "./memory-budget.ts";
import { computeMemoryNeed } from "./memory-need.ts";
import type { ModelFactsCache } from "./model-facts-cache.ts";
import type { Resident } from "./resident.ts";

interface ModelLoaderOptions {
  readonly engine: InferenceEngine;
  readonly facts: ModelFactsCache;
  readonly memoryBudget: MemoryBudget;
  /** The limit for all loaded models together. */
  readonly memoryBytesMax: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Loads one model after the other, so that each load knows how much memory is free. */
export class ModelLoader {
  readonly #options: ModelLoaderOptions;
  readonly #arbiter: CoreArbiter;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: ModelLoaderOptions) {
    this.#options = options;
    this.#arbiter = new CoreArbiter(options);
  }

  /**
   * Evicts idle models as needed, then loads the model. Rejects with the engine's error, or with the reason of
   * `resident.loadAbort` if the load was aborted.
   */
  load(resident: Resident): Promise<LoadedModel> {
    const load = () => this.#load(resident);
    const result = this.#queue.then(load, load);
    this.#queue = result.catch(() => {});
    return result;
  }

  async #load(resident: Resident): Promise<LoadedModel> {
    const { known, loadAbort } = resident;
    const { engine, clock, logger } = this.#options;
    loadAbort.signal.throwIfAborted();
    const memoryBytesMax = await this.#reserveMemory(resident);
    const startedAt = clock.now();
    const model = await engine.load(
      {
        id: known.id,
        path: known.path,
        chatTemplate: known.chatTemplate,
        contextTokens: known.contextTokens,
        sequences: known.sequences,
        isDeterministic: known.isDeterministic,
        memoryBytesMax,
        cores: this.#arbiter.createCores(),
      },
      loadAbort.signal,
    );
    resident.markLoaded(model);
    logger.info(
      {
        model: known.id,
        ms: resident.loadedAt - startedAt,
        memoryBytes: model.memoryBytes,
        contextTokens: model.contextTokens,
        sequences: model.sequences,
        threads: model.threads,
      },
      "a model is loaded",
    );
    return model;
  }

  /** Evicts other models if the model needs their memory. Returns how many bytes the model may use. */
  async #reserveMemory(resident: Resident): Promise<number> {
    const { facts, memoryBudget, memoryBytesMax } = this.#options;
    const need = computeMemoryNeed(await facts.get(resident.known), resident.known);
    const limit = Math.min(memoryBytesMax, getMemoryLimit(resident.known));
    // If the model does not fit even alone, nothing is evicted: the engine reports how much it lacks.
    if (need.least > limit) return limit;
    const wanted = Math.min(need.wanted, limit);
    return Math.min(limit, await memoryBudget.evictFor({ ...need, wanted }, resident));
  }
}
