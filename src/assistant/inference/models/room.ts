import type { Logger } from "../../../base/logger.ts";
import { timeLimit } from "../../../base/time-limit.ts";
import { type MemoryNeed, nextToGo, type Occupant } from "./next-to-go.ts";
import type { Resident } from "./resident.ts";

/** How long a load waits until models that are busy leave room for it, in milliseconds. */
const ROOM_WAIT_MS = 60_000;

/** The memory that models share: who has to go so that another fits. */
export class Room {
  readonly #bytesMax: number;
  readonly #residents: () => readonly Resident[];
  readonly #unload: (resident: Resident) => Promise<void>;
  readonly #logger: Logger;
  readonly #waiting = new Set<() => void>();

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
  async make(need: MemoryNeed, forWhom: Resident): Promise<number> {
    using limit = timeLimit(forWhom.ending.signal, ROOM_WAIT_MS);
    for (;;) {
      // One that is still to be loaded takes nothing yet, and waits for this one.
      const others = this.#residents().filter(({ model }) => model !== undefined);
      const taken = others.reduce((total, { model }) => total + (model?.memoryBytes ?? 0), 0);
      const freeBytes = this.#bytesMax - taken;
      const isLate = limit.signal.aborted;
      const next = nextToGo(others.map(occupantOf), need, { freeBytes, isLate });
      if (next === "nobody") return freeBytes;
      if (next === "wait") {
        await this.changed(limit.signal);
        forWhom.ending.signal.throwIfAborted();
        continue;
      }
      this.#logger.info(
        { model: next.resident.known.id, for: forWhom.known.id },
        "a model is unloaded to make room for another",
      );
      await this.#unload(next.resident);
    }
  }

  /** A model has become idle, or has gone. */
  notify(): void {
    for (const listener of this.#waiting) listener();
  }

  /** Resolves to true at the next `notify`, to false where the signal aborts first. */
  changed(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (isChanged: boolean) => {
        this.#waiting.delete(onChange);
        signal.removeEventListener("abort", onAbort);
        resolve(isChanged);
      };
      const onChange = () => settle(true);
      const onAbort = () => settle(false);
      if (signal.aborted) {
        resolve(false);
        return;
      }
      this.#waiting.add(onChange);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }
}

function occupantOf(resident: Resident): Occupant & { readonly resident: Resident } {
  return {
    resident,
    memoryBytes: resident.model?.memoryBytes ?? 0,
    isPinned: resident.known.isPinned,
    isIdle: resident.state === "resident" && !resident.isInUse,
    isLeaving: resident.state === "unloading",
    lastUsed: resident.lastUsed,
  };
}
