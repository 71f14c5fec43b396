import { type Clock, delay } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { KnownModel, KnownModels } from "./known-models.ts";
import { toLogFields } from "./load-failures.ts";
import type { Resident } from "./resident.ts";

interface PinnedModelRecoveryOptions {
  readonly known: KnownModels;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Aborts when the assistant shuts down. */
  readonly signal: AbortSignal;
  getResident(id: string): Resident | undefined;
  /**
   * Returns the value of `Clock.now()` at which the model's back-off ends; 0 if no failure of the model's file is
   * known.
   */
  getRetryAt(known: KnownModel): number;
  load(known: KnownModel, signal: AbortSignal): Promise<void>;
}

/** Loads pinned models again after their engine failed. */
export class PinnedModelRecovery {
  readonly #options: PinnedModelRecoveryOptions;
  readonly #recovering = new Set<string>();

  constructor(options: PinnedModelRecoveryOptions) {
    this.#options = options;
  }

  isRecovering(id: string): boolean {
    return this.#recovering.has(id);
  }

  /** Retries until the model is resident, is not pinned any more, cannot be loaded, or the signal aborts. */
  async keepLoaded(id: string): Promise<void> {
    this.#recovering.add(id);
    try {
      await this.#retryLoad(id);
    } finally {
      this.#recovering.delete(id);
    }
  }

  async #retryLoad(id: string): Promise<void> {
    const { known, clock, logger, signal } = this.#options;
    for (;;) {
      try {
        const models = await known.list();
        signal.throwIfAborted();
        const pinned = models.find((model) => model.id === id && model.isPinned);
        const resident = this.#options.getResident(id);
        if (!pinned || resident?.state === "resident") return;
        const waitMs = this.#options.getRetryAt(pinned) - clock.now();
        if (resident?.unloaded) await raceWithAbort(resident.unloaded, signal);
        else if (resident) await raceWithAbort(resident.ready, signal);
        else if (waitMs > 0) await delay(clock, waitMs, signal);
        else await this.#options.load(pinned, signal);
      } catch (error) {
        if (signal.aborted) return;
        // Only `engine_failed` is retried here, because no delay repairs a file. After any other error, the model stays
        // unloaded until a client requests it.
        if (error instanceof AssistantError && error.code === "engine_failed") continue;
        logger.error({ model: id, ...toLogFields(error) }, "a pinned model could not be loaded");
        return;
      }
    }
  }
}
