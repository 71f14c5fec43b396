import type { Logger } from "../../../base/logger.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { chooseEviction, type MemoryNeed, type Occupant } from "./eviction-order.ts";
import type { Resident } from "./resident.ts";

/** How long a load waits until models that are busy leave room for it, in milliseconds. */
const EVICTION_WAIT_MS = 60_000;

/** The memory that models share: who has to go so that another fits. */
export class MemoryBudget {
  readonly #bytesMax: number;
  readonly #residents: () => readonly Resident[];
  readonly #unload: (resident: Resident) => Promise<void>;
  readonly #logger: Logger;
  readonly #changeListeners = new Set<() => void>();

  constructor(options: {
    readonly bytesMax: number;
    readonly residents: () => readonly Resident[];
    readonly unload: (resident: Resident) => Promise<void>;
    readonly logger: Logger;
  }) {
    this.#bytesMax = options.bytesMax;
    this.#residents = options.residents;
    this.#unload = options.unload;
    this.#logger = options.logger;
  }

  /**
   * Unloads idle models, least recently used first, until there is room; waits a while for those in use.
   * Resolves to what is free, which may be less than wanted: the engine may do with a smaller context.
   * Who goes, and for how much, is `nextToGo`'s to say.
   */
  async evictFor(need: MemoryNeed, newcomer: Resident): Promise<number> {
    using limit = createTimeLimit(newcomer.loadAbort.signal, EVICTION_WAIT_MS);
    for (;;) {
      // One that is still to be loaded takes nothing yet, and waits for this one.
      const others = this.#residents().filter(({ model }) => model !== undefined);
      const taken = others.reduce((total, { model }) => total + (model?.memoryBytes ?? 0), 0);
      const freeBytes = this.#bytesMax - taken;
      const isLate = limit.signal.aborted;
      const next = chooseEviction(others.map(toOccupant), need, { freeBytes, isLate });
      if (next === "none") return freeBytes;
      if (next === "wait") {
        await this.waitForChange(limit.signal);
        newcomer.loadAbort.signal.throwIfAborted();
        continue;
      }
      this.#logger.info(
        { model: next.resident.known.id, for: newcomer.known.id },
        "a model is evicted to free memory for another",
      );
      await this.#unload(next.resident);
    }
  }

  /** A model has become idle, or has gone. */
  notifyChange(): void {
    for (const listener of this.#changeListeners) listener();
  }

  /** Resolves to true at the next `notify`, to false where the signal aborts first. */
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
