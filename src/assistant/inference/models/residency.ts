import { type Clock, delay } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { InferenceEngine, LoadedModel, ModelFacts } from "../inference-engine.ts";
import { CoreArbiter } from "./core-arbiter.ts";
import {
  getMemoryLimit,
  hasSameLoadSettings,
  type KnownModel,
  type KnownModels,
} from "./known-models.ts";
import { LoadFailures, toLoadError, toLogFields, withRetryAfter } from "./load-failures.ts";
import { MemoryBudget } from "./memory-budget.ts";
import { computeMemoryNeed } from "./memory-need.ts";
import type { ModelFactsCache } from "./model-facts-cache.ts";
import { type ModelLease, Resident } from "./resident.ts";

/** A request waits this long for a model that crashed a moment ago; beyond that it is told to come back. */
const BACKOFF_WAIT_MS_MAX = 5_000;
/** What is under way may end by itself when a model is unloaded, in milliseconds. */
const DRAIN_MS = 10_000;

export interface ResidencyState {
  readonly id: string;
  /** unloaded -> loading -> resident -> unloading -> unloaded; failed: the last load or run went wrong. */
  readonly state: "unloaded" | "loading" | "resident" | "unloading" | "failed";
  readonly model: LoadedModel | undefined;
  /** Epoch milliseconds; undefined: it is not resident. */
  readonly loadedAt: number | undefined;
  /** When an idle model goes; undefined: it stays, or is in use. */
  readonly expiresAt: number | undefined;
  readonly error: AssistantError | undefined;
  /** It is brought back, now or after a back-off, without anybody having to ask. */
  readonly isRecovering: boolean;
}

export interface ResidencyOptions {
  readonly engine: InferenceEngine;
  readonly known: KnownModels;
  readonly facts: ModelFactsCache;
  /** What all models together may take. */
  readonly memoryBytesMax: number;
  /** How long an idle model stays where a request does not say; Infinity: for ever. */
  readonly keepAliveMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Which models are in memory: loads what is asked for, within the budget, unloads what is idle, and
 * brings back what crashed. Loads run one after the other, so that each knows what is left.
 */
export class Residency implements AsyncDisposable {
  readonly #options: ResidencyOptions;
  readonly #arbiter: CoreArbiter;
  readonly #resident = new Map<string, Resident>();
  readonly #failures = new LoadFailures();
  readonly #recovering = new Set<string>();
  readonly #closing = new AbortController();
  readonly #memoryBudget: MemoryBudget;
  #loadQueue: Promise<unknown> = Promise.resolve();

  constructor(options: ResidencyOptions) {
    this.#options = options;
    this.#arbiter = new CoreArbiter(options);
    this.#memoryBudget = new MemoryBudget({
      bytesMax: options.memoryBytesMax,
      residents: () => [...this.#resident.values()],
      unload: (resident) => this.#evict(resident),
      logger: options.logger,
    });
  }

  /**
   * A model to work with, loaded if it is not. Rejects with `model_unusable`, `insufficient_memory`,
   * `engine_failed` or the signal's reason; the load itself goes on for others when one caller leaves.
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
    const gone = [...this.#resident.values()].filter(
      (resident) => !known.some(({ id }) => id === resident.known.id),
    );
    return [...known, ...gone.map((resident) => resident.known)].map((model) => ({
      ...this.#getState(model.id),
      known: model,
    }));
  }

  /** Those in memory, without looking at the disk. */
  get residentModels(): readonly LoadedModel[] {
    return [...this.#resident.values()].flatMap(({ model }) => (model ? [model] : []));
  }

  /**
   * Loads it by hand, which is tried at once whatever went wrong before. One that is there with another
   * file or other settings than are registered now, or with more memory, makes way for what is registered.
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

  /** Takes a model out of memory; what is under way has ten seconds to end. Resolves when it is gone. */
  async unload(id: string): Promise<void> {
    const resident = this.#resident.get(id);
    this.#failures.forget(id);
    if (!resident) return;
    if (resident.state === "loading") {
      resident.loadAbort.abort(
        new AssistantError("model_unusable", `the load of ${id} was stopped`),
      );
      await resident.ready.catch(() => {});
    }
    await this.#unload(resident, DRAIN_MS);
  }

  /** Those that are to be there at all times; failures are logged, and tried again. */
  async loadPinned(): Promise<void> {
    for (const { id, isPinned } of await this.#options.known.list()) {
      if (isPinned) await this.#keepLoaded(id);
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

  /** Of the model that is in memory, whatever has become of its file since; else of the file. */
  async facts(known: KnownModel): Promise<ModelFacts> {
    return this.#resident.get(known.id)?.model?.facts ?? (await this.#options.facts.get(known));
  }

  /**
   * Who answers to that name, or where there is none; loads nothing. Without a name: of those that can
   * do it, one that is resident, then a pinned one, then the first. `model_not_found`, `no_model`.
   */
  async resolve(name: string | undefined, use: "generate" | "embed"): Promise<KnownModel> {
    if (name !== undefined) return this.#options.known.find(name);
    const known = await this.#options.known.list();
    const candidates = await Promise.all(
      known.map(async (model) => ({
        model,
        kind: (await this.facts(model).catch(() => undefined))?.kind,
        lastUsed: this.#resident.get(model.id)?.lastUsed ?? 0,
      })),
    );
    const [best] = candidates
      .filter(({ kind }) => use === "embed" || kind !== "embedding")
      .toSorted(
        (one, other) =>
          // A file that cannot be read is nobody's choice.
          Number(one.kind === undefined) - Number(other.kind === undefined) ||
          Number(other.kind === "embedding") - Number(one.kind === "embedding") ||
          Number(other.lastUsed > 0) - Number(one.lastUsed > 0) ||
          Number(other.model.isPinned) - Number(one.model.isPinned) ||
          other.lastUsed - one.lastUsed,
      );
    if (best) return best.model;
    throw new AssistantError(
      "no_model",
      `there is no model that could answer. Start with one: berth assistant --system --model FILE.gguf; or put a GGUF file into the folder "models" of the data directory`,
    );
  }

  async #startLoad(known: KnownModel, signal: AbortSignal): Promise<void> {
    const failure = this.#failures.get(known.id, known.modifiedMs);
    const waitMs = failure ? failure.retryAt - this.#options.clock.now() : 0;
    if (failure && waitMs > 0) {
      // A damaged file stays damaged; what crashed may hold the next time.
      if (failure.error.code !== "engine_failed" || waitMs > BACKOFF_WAIT_MS_MAX)
        throw withRetryAfter(failure.error, waitMs);
      await delay(this.#options.clock, waitMs, signal);
      // Somebody else may have begun meanwhile.
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
    resident.ready = this.#enqueueLoad(() => this.#runLoad(resident));
    // Everybody who waits hears of a failure; nobody may be waiting any more.
    resident.ready.catch(() => {});
    this.#resident.set(known.id, resident);
    return resident;
  }

  #getKeepAliveMs({ isPinned }: KnownModel): number {
    return isPinned ? Number.POSITIVE_INFINITY : this.#options.keepAliveMs;
  }

  #enqueueLoad<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#loadQueue.then(task, task);
    this.#loadQueue = result.catch(() => {});
    return result;
  }

  async #runLoad(resident: Resident): Promise<LoadedModel> {
    const { known, loadAbort: ending } = resident;
    const { engine, clock, logger } = this.#options;
    try {
      ending.signal.throwIfAborted();
      const facts = await this.#options.facts.get(known);
      const need = computeMemoryNeed(facts, known);
      const limit = Math.min(this.#options.memoryBytesMax, getMemoryLimit(known));
      // Nothing goes for a model that does not fit even alone: the engine says by how much.
      const memoryBytesMax =
        need.least > limit
          ? limit
          : Math.min(
              limit,
              await this.#memoryBudget.evictFor(
                { ...need, wanted: Math.min(need.wanted, limit) },
                resident,
              ),
            );
      const startedAt = clock.now();
      const model = await engine.load(
        {
          id: known.id,
          path: known.path,
          contextTokens: known.contextTokens,
          sequences: known.sequences,
          memoryBytesMax,
          cores: this.#arbiter.createCores(),
        },
        ending.signal,
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
      void model.ended.then(({ reason }) => this.#onCrash(resident, reason));
      return model;
    } catch (error) {
      this.#resident.delete(known.id);
      const failure = toLoadError(error, known.id);
      if (!ending.signal.aborted) {
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

  /** It goes while all is well with it, so that what went wrong before is over. */
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

  /** Ended by itself: whoever was served has heard of it from the model. */
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
    void this.#unload(resident, 0).then(() => this.#keepLoaded(known.id));
  }

  /** Tries until the model is there, it is not wanted any more, or everything ends. */
  async #keepLoaded(id: string): Promise<void> {
    this.#recovering.add(id);
    try {
      await this.#retryLoad(id);
    } finally {
      this.#recovering.delete(id);
    }
  }

  async #retryLoad(id: string): Promise<void> {
    const { clock, logger } = this.#options;
    const { signal } = this.#closing;
    for (;;) {
      try {
        const models = await this.#options.known.list();
        signal.throwIfAborted();
        const known = models.find((model) => model.id === id && model.isPinned);
        const resident = this.#resident.get(id);
        if (!known || resident?.state === "resident") return;
        const waitMs = (this.#failures.get(id, known.modifiedMs)?.retryAt ?? 0) - clock.now();
        if (resident?.unloaded) await raceWithAbort(resident.unloaded, signal);
        else if (resident) await raceWithAbort(resident.ready, signal);
        else if (waitMs > 0) await delay(clock, waitMs, signal);
        else await this.#startLoad(known, signal);
      } catch (error) {
        if (signal.aborted) return;
        // What a file lacks does not come by waiting: tried again when it is asked for.
        if (error instanceof AssistantError && error.code === "engine_failed") continue;
        logger.error({ model: id, ...toLogFields(error) }, "a pinned model could not be loaded");
        return;
      }
    }
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
      isRecovering: this.#recovering.has(id),
    };
  }
}

function shuttingDownError(): AssistantError {
  return new AssistantError("shutting_down", "the assistant is shutting down");
}
