import { type Clock, delay } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { InferenceEngine, LoadedModel, ModelFacts } from "../inference-engine.ts";
import { chooseDefaultModel, type ModelUse } from "./default-model.ts";
import {
  getMemoryLimit,
  hasSameLoadSettings,
  type KnownModel,
  type KnownModels,
} from "./known-models.ts";
import { LoadFailures, toLoadError, toLogFields, withRetryAfter } from "./load-failures.ts";
import { MemoryBudget } from "./memory-budget.ts";
import type { ModelFactsCache } from "./model-facts-cache.ts";
import { ModelLoader } from "./model-loader.ts";
import { PinnedModelRecovery } from "./pinned-model-recovery.ts";
import { type ModelLease, Resident } from "./resident.ts";

/**
 * The longest time that a request waits for the next attempt to load a crashed model. If the attempt is due later, the
 * request is refused.
 */
const BACKOFF_WAIT_MS_MAX = 5_000;
/** Time for requests in progress to finish before a model is unloaded, in milliseconds. */
const DRAIN_MS = 10_000;

export interface ResidencyState {
  readonly id: string;
  /**
   * The states follow each other: unloaded -> loading -> resident -> unloading -> unloaded. `failed` means that the
   * last load failed or the model crashed.
   */
  readonly state: "unloaded" | "loading" | "resident" | "unloading" | "failed";
  readonly model: LoadedModel | undefined;
  /** The time when the model became resident, in epoch milliseconds; undefined if it is not resident. */
  readonly loadedAt: number | undefined;
  /**
   * The time when the idle model is unloaded, in epoch milliseconds; undefined if the model is in use, or is kept
   * forever.
   */
  readonly expiresAt: number | undefined;
  readonly error: AssistantError | undefined;
  /** True while the model is reloaded, now or after a back-off, without a request for it. */
  readonly isRecovering: boolean;
}

export interface ResidencyOptions {
  readonly engine: InferenceEngine;
  readonly known: KnownModels;
  readonly facts: ModelFactsCache;
  /** The limit for all loaded models together. */
  readonly memoryBytesMax: number;
  /** The time that an idle model stays loaded if its last request set no time; Infinity means forever. */
  readonly keepAliveMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Keeps models in memory: loads requested models within the memory budget, unloads idle ones, and
 * reloads pinned ones that crashed.
 */
export class Residency implements AsyncDisposable {
  readonly #options: ResidencyOptions;
  readonly #resident = new Map<string, Resident>();
  readonly #failures = new LoadFailures();
  readonly #closing = new AbortController();
  readonly #memoryBudget: MemoryBudget;
  readonly #loader: ModelLoader;
  readonly #pinned: PinnedModelRecovery;

  constructor(options: ResidencyOptions) {
    this.#options = options;
    this.#memoryBudget = new MemoryBudget({
      bytesMax: options.memoryBytesMax,
      residents: () => [...this.#resident.values()],
      unload: (resident) => this.#evict(resident),
      logger: options.logger,
    });
    this.#loader = new ModelLoader({ ...options, memoryBudget: this.#memoryBudget });
    this.#pinned = new PinnedModelRecovery({
      ...options,
      signal: this.#closing.signal,
      getResident: (id) => this.#resident.get(id),
      getRetryAt: ({ id, modifiedMs }) => this.#failures.get(id, modifiedMs)?.retryAt ?? 0,
      load: (known, signal) => this.#startLoad(known, signal),
    });
  }

  /**
   * Leases a model, which is loaded first if necessary. Rejects with `model_unusable`,
   * `insufficient_memory`, `engine_failed` or the signal's reason. Aborting the signal does not abort the
   * load, which other callers may wait for.
   */
  async acquire(
    known: KnownModel,
    options: { readonly keepAliveMs?: number | undefined },
    signal: AbortSignal,
  ): Promise<ModelLease> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#closing.signal.aborted) throw shuttingDownError();
      const resident = this.#resident.get(known.id);
      if (resident?.state === "resident" && resident.model)
        return resident.lease(resident.model, options.keepAliveMs);
      if (resident?.state === "unloading")
        await raceWithAbort(resident.unloaded ?? Promise.resolve(), signal);
      else if (resident) await raceWithAbort(resident.ready, signal);
      else await this.#startLoad(known, signal);
    }
  }

  async states(): Promise<readonly (ResidencyState & { readonly known: KnownModel })[]> {
    const known = await this.#options.known.list();
    const unregistered = [...this.#resident.values()].filter(
      (resident) => !known.some(({ id }) => id === resident.known.id),
    );
    return [...known, ...unregistered.map((resident) => resident.known)].map((model) => ({
      ...this.#getState(model.id),
      known: model,
    }));
  }

  /** The models in memory; reads nothing from disk. */
  get residentModels(): readonly LoadedModel[] {
    return [...this.#resident.values()].flatMap(({ model }) => (model ? [model] : []));
  }

  /**
   * Loads a model at once, without waiting for the back-off of earlier failures. A resident model is reloaded if its
   * file or settings have changed, or if it uses more memory than its registration allows now.
   */
  async load(id: string, signal: AbortSignal): Promise<LoadedModel> {
    this.#failures.forget(id);
    const known = await this.#options.known.find(id);
    const resident = this.#resident.get(known.id);
    const isTooLarge = (resident?.model?.memoryBytes ?? 0) > getMemoryLimit(known);
    if (resident && (isTooLarge || !hasSameLoadSettings(resident.known, known)))
      await this.unload(known.id);
    else if (resident) resident.known = known;
    const keepAliveMs = this.#getKeepAliveMs(known);
    const lease = await this.acquire(known, { keepAliveMs }, signal);
    try {
      return lease.model;
    } finally {
      lease.release();
    }
  }

  /**
   * Unloads a model when its requests have ended, but after ten seconds at the latest, even if some are still running.
   * Resolves when the memory is free.
   */
  async unload(id: string): Promise<void> {
    const resident = this.#resident.get(id);
    this.#failures.forget(id);
    if (!resident) return;
    if (resident.state === "loading") {
      resident.loadAbort.abort(
        new AssistantError(
          "model_unusable",
          `the load of ${id} was aborted because the model is unloaded`,
        ),
      );
      await resident.ready.catch(() => {});
    }
    await this.#unload(resident, DRAIN_MS);
  }

  /** Loads all pinned models. A load that fails with `engine_failed` is tried again; other failures are only logged. */
  async loadPinned(): Promise<void> {
    for (const { id, isPinned } of await this.#options.known.list()) {
      if (isPinned) await this.#pinned.keepLoaded(id);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(shuttingDownError());
    await Promise.all(
      [...this.#resident.values()].map(async (resident) => {
        resident.loadAbort.abort(shuttingDownError());
        await resident.ready.catch(() => {});
        await this.#unload(resident, 0);
      }),
    );
  }

  /**
   * Returns the ModelFacts of the loaded model, such as its architecture, even if its file has changed since the load.
   * If the model is not loaded, reads them from the file.
   */
  async facts(known: KnownModel): Promise<ModelFacts> {
    return this.#resident.get(known.id)?.model?.facts ?? (await this.#options.facts.get(known));
  }

  /**
   * Returns the model with that id or alias; loads nothing. Without a name, returns the best model for the
   * use (see `chooseDefaultModel`). Rejects with `model_not_found` or `no_model`.
   */
  async resolve(name: string | undefined, use: ModelUse): Promise<KnownModel> {
    if (name !== undefined) return this.#options.known.find(name);
    const known = await this.#options.known.list();
    const candidates = await Promise.all(
      known.map(async (model) => ({
        model,
        kind: (await this.facts(model).catch(() => undefined))?.kind,
        lastUsed: this.#resident.get(model.id)?.lastUsed ?? 0,
      })),
    );
    return chooseDefaultModel(candidates, use);
  }

  async #startLoad(known: KnownModel, signal: AbortSignal): Promise<void> {
    const failure = this.#failures.get(known.id, known.modifiedMs);
    const waitMs = failure ? failure.retryAt - this.#options.clock.now() : 0;
    if (failure && waitMs > 0) {
      // A damaged file stays damaged, so the load is repeated only after a failure of the engine.
      if (failure.error.code !== "engine_failed" || waitMs > BACKOFF_WAIT_MS_MAX)
        throw withRetryAfter(failure.error, waitMs);
      await delay(this.#options.clock, waitMs, signal);
      // Another caller may have started the load meanwhile, so the callers of this method check the state again.
      return;
    }
    const resident = this.#createResident(known);
    await raceWithAbort(resident.ready, signal);
  }

  #createResident(known: KnownModel): Resident {
    const { clock, logger } = this.#options;
    const resident: Resident = new Resident({
      known,
      clock,
      keepAliveMs: this.#getKeepAliveMs(known),
      onIdle: () => this.#memoryBudget.notifyChange(),
      onExpired: () => {
        logger.info({ model: known.id }, "an idle model is unloaded");
        void this.#evict(resident);
      },
    });
    resident.ready = this.#load(resident);
    // Callers that wait for the load receive its failure. This handler covers the case that no caller waits any more.
    resident.ready.catch(() => {});
    this.#resident.set(known.id, resident);
    return resident;
  }

  #getKeepAliveMs({ isPinned }: KnownModel): number {
    return isPinned ? Number.POSITIVE_INFINITY : this.#options.keepAliveMs;
  }

  async #load(resident: Resident): Promise<LoadedModel> {
    const { known, loadAbort } = resident;
    const { clock, logger } = this.#options;
    try {
      const model = await this.#loader.load(resident);
      void model.ended.then(({ reason }) => this.#onCrash(resident, reason));
      return model;
    } catch (error) {
      this.#resident.delete(known.id);
      const failure = toLoadError(error, known.id);
      if (!loadAbort.signal.aborted) {
        this.#failures.add(known.id, {
          error: failure,
          now: clock.now(),
          heldMs: 0,
          fileStamp: known.modifiedMs,
        });
        logger.warn({ model: known.id, ...toLogFields(error) }, "a model was not loaded");
      }
      throw failure;
    }
  }

  /**
   * Unloads a model that was loaded successfully. Load failures before that are forgotten, so that the next load does
   * not wait for their back-off.
   */
  #evict(resident: Resident): Promise<void> {
    this.#failures.forget(resident.known.id);
    return this.#unload(resident, 0);
  }

  #unload(resident: Resident, drainMs: number): Promise<void> {
    resident.unloaded ??= (async () => {
      resident.state = "unloading";
      resident.cancelExpiry();
      if (drainMs > 0 && resident.isInUse) {
        using limit = createTimeLimit(this.#closing.signal, drainMs);
        while (resident.isInUse && (await this.#memoryBudget.waitForChange(limit.signal)));
      }
      await resident.model?.[Symbol.asyncDispose]();
      resident.model = undefined;
      if (this.#resident.get(resident.known.id) === resident)
        this.#resident.delete(resident.known.id);
      this.#memoryBudget.notifyChange();
    })();
    return resident.unloaded;
  }

  /** Handles the unexpected end of a model. The model itself has rejected the requests in progress. */
  #onCrash(resident: Resident, reason: string): void {
    if (resident.state !== "resident") return;
    const { clock, logger } = this.#options;
    const { known } = resident;
    const failure = this.#failures.add(known.id, {
      error: new AssistantError(
        "engine_failed",
        `the engine of model ${known.id} ended: ${reason}`,
      ),
      now: clock.now(),
      heldMs: clock.now() - resident.loadedAt,
      fileStamp: known.modifiedMs,
    });
    logger.error({ model: known.id, reason, retryAt: failure.retryAt }, "a model crashed");
    void this.#unload(resident, 0).then(() => this.#pinned.keepLoaded(known.id));
  }

  #getState(id: string): ResidencyState {
    const resident = this.#resident.get(id);
    const error = this.#failures.lastError(id);
    const state = resident?.state ?? (error ? "failed" : "unloaded");
    return {
      id,
      state,
      model: resident?.model,
      loadedAt: resident?.state === "resident" ? resident.loadedAt : undefined,
      expiresAt: resident?.expiresAt,
      error: resident ? undefined : error,
      isRecovering: this.#pinned.isRecovering(id),
    };
  }
}

function shuttingDownError(): AssistantError {
  return new AssistantError("shutting_down", "the assistant is shutting down");
}
