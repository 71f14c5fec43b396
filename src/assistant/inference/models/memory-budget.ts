import type { Logger } from "../../../base/logger.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { chooseEviction, type MemoryNeed, type Occupant } from "./eviction-order.ts";
import type { Resident } from "./resident.ts";

/** The longest time that a load waits for models in use to become idle, in milliseconds. */
const EVICTION_WAIT_MS = 60_000;

interface MemoryBudgetOptions {
  /** The limit for all loaded models together. */
  readonly bytesMax: number;
  readonly residents: () => readonly Resident[];
  readonly unload: (resident: Resident) => Promise<void>;
  readonly logger: Logger;
}

/** The memory that all models share. Evicts models so that a new model fits. */
export class MemoryBudget {
  readonly #options: MemoryBudgetOptions;
  readonly #changeListeners = new Set<() => void>();

  constructor(options: MemoryBudgetOptions) {
    this.#options = options;
  }

  /**
   * Evicts models in the order of `chooseEviction` until enough memory is free; waits for models in use, but not longer
   * than a minute. Resolves to the free bytes, which may be fewer than wanted: the engine can choose a smaller context.
   * Rejects if the load of the new model is aborted.
   */
  async evictFor(need: MemoryNeed, newcomer: Resident): Promise<number> {
    using limit = createTimeLimit(newcomer.loadAbort.signal, EVICTION_WAIT_MS);
    for (;;) {
      // A model that is not loaded yet does not count: it uses no memory, and its load waits for the end of the current
      // load.
      const others = this.#options.residents().filter(({ model }) => model !== undefined);
      const usedBytes = others.reduce((total, { model }) => total + (model?.memoryBytes ?? 0), 0);
      const freeBytes = this.#options.bytesMax - usedBytes;
      const isLate = limit.signal.aborted;
      const next = chooseEviction(others.map(toOccupant), need, { freeBytes, isLate });
      if (next === "none") return freeBytes;
      if (next === "wait") {
        await this.waitForChange(limit.signal);
        newcomer.loadAbort.signal.throwIfAborted();
        continue;
      }
      this.#options.logger.info(
        { model: next.resident.known.id, for: newcomer.known.id },
        "a model is evicted to free memory for another",
      );
      await this.#options.unload(next.resident);
    }
  }

  /** Reports that a model has become idle or was unloaded. */
  notifyChange(): void {
    for (const listener of this.#changeListeners) listener();
  }

  /** Resolves to true at the next `notifyChange`, or to false if the signal aborts first. */
  waitForChange(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (isChanged: boolean) => {
        this.#changeListeners.delete(onChange);
        signal.removeEventListener("abort", onAbort);
        resolve(isChanged);
      };
      const onChange = () => settle(true);
      const onAbort = () => settle(false);
      if (signal.aborted) {
        resolve(false);
        return;
      }
      this.#changeListeners.add(onChange);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }
}

function toOccupant(resident: Resident): Occupant & { readonly resident: Resident } {
  return {
    resident,
    memoryBytes: resident.model?.memoryBytes ?? 0,
    isPinned: resident.known.isPinned,
    isIdle: resident.state === "resident" && !resident.isInUse,
    isUnloading: resident.state === "unloading",
    lastUsed: resident.lastUsed,
  };
}
