import { type Clock, delay } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { Store } from "../store/store.ts";

const CHECK_MS = 5_000;

/** Tracks if Berth can write to its data directory. */
export class DataDisk {
  readonly #store: Pick<Store, "checkDisk">;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onRecovered: () => void;
  #problem: string | null = null;

  /**
   * `onRecovered` is called when Berth can write again. The caller may then immediately retry work that has failed.
   */
  constructor(options: {
    readonly store: Pick<Store, "checkDisk">;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly onRecovered: () => void;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#onRecovered = options.onRecovered;
  }

  /** The reason why Berth cannot write to the data directory, and what to do about it; null if Berth can write. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Checks the data directory periodically until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#check();
      await delay(this.#clock, CHECK_MS, signal).catch(() => {});
    }
  }

  #check(): void {
    const before = this.#problem;
    this.#problem = problems[this.#store.checkDisk()];
    if (before === this.#problem) return;
    if (this.#problem !== null) {
      this.#logger.error({ problem: this.#problem }, "the data directory cannot be used");
      return;
    }
    this.#logger.info({}, "the data directory can be used again");
    this.#onRecovered();
  }
}

const problems = {
  ok: null,
  full: "the disk of Berth's data directory is full: changes are refused, and running apps are kept running; free some space there",
  gone: "Berth's data directory was removed or unmounted: what is written now will be lost; put it back, and restart Berth",
} as const;
