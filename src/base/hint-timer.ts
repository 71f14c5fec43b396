import type { Clock } from "./clock.ts";

/** Long enough for an editor to finish a save, short enough that nobody notices. */
const QUIET_MS = 50;
/** A folder that never gets quiet is looked at all the same. */
const QUIET_MAX_MS = 500;

/**
 * Turns a stream of hints into few calls: one when it has been quiet for QUIET_MS, and at the
 * latest QUIET_MAX_MS after the first hint.
 */
export class HintTimer {
  readonly #clock: Clock;
  readonly #onQuiet: () => void;
  #firstAt: number | undefined;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, onQuiet: () => void) {
    this.#clock = clock;
    this.#onQuiet = onQuiet;
  }

  hint(): void {
    const now = this.#clock.now();
    this.#firstAt ??= now;
    this.#cancel?.();
    const delayMs = Math.max(0, Math.min(QUIET_MS, this.#firstAt + QUIET_MAX_MS - now));
    this.#cancel = this.#clock.setTimer(delayMs, () => {
      this.stop();
      this.#onQuiet();
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#firstAt = undefined;
  }
}
