import type { Clock } from "../../base/clock.ts";
import { getErrorMessage } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { TextEraser } from "./port.ts";

export interface TextRetentionOptions {
  readonly ledger: TextEraser;
  /**
   * Returns how long texts are kept, in milliseconds; undefined if they are never erased. Called before each erasure.
   */
  readonly keepMs: () => number | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The first erasure waits, so that it does not delay the start, and so that the machine's clock is set by then. */
const FIRST_MS = 5 * 60_000;
const INTERVAL_MS = 24 * 3_600_000;

/** Erases the texts of the ledger that are older than the retention of the settings, once a day. */
export class TextRetention implements AsyncDisposable {
  readonly #options: TextRetentionOptions;
  #cancel: () => void = () => {};
  #running: Promise<void> = Promise.resolve();
  readonly #ending = new AbortController();

  constructor(options: TextRetentionOptions) {
    this.#options = options;
  }

  start(): void {
    this.#schedule(FIRST_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    this.#cancel();
    await this.#running;
  }

  #schedule(delayMs: number): void {
    if (this.#ending.signal.aborted) return;
    this.#cancel = this.#options.clock.setTimer(delayMs, () => {
      this.#running = this.#erase().finally(() => this.#schedule(INTERVAL_MS));
    });
  }

  async #erase(): Promise<void> {
    const { ledger, keepMs, clock, logger } = this.#options;
    const kept = keepMs();
    if (kept === undefined) return;
    try {
      const beforeMs = Math.max(0, clock.now() - kept);
      const { texts } = await ledger.eraseBefore(beforeMs, this.#ending.signal);
      if (texts > 0) logger.info({ texts }, "old texts of the ledger were erased");
    } catch (error) {
      // The daemon is shutting down. The texts that are not erased yet are erased after the next start.
      if (this.#ending.signal.aborted) return;
      const reason = getErrorMessage(error);
      logger.warn({ reason }, "old texts of the ledger could not be erased; will retry in a day");
    }
  }
}
