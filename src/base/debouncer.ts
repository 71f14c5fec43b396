import type { Clock } from "./clock.ts";

/** Long enough for an editor to finish a save, short enough that nobody notices. */
const QUIET_MS = 50;
/** A folder that never gets quiet is looked at all the same. */
const QUIET_MAX_MS = 500;

/**
 * Turns a stream of hints into few calls: one when it has been quiet for QUIET_MS, and at the
 * latest QUIET_MAX_MS after the first hint.
 */
export class Debouncer {
  readonly #clock: Clock;
  readonly #onQuiet: () => void;
  #firstTriggerAtMs: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(clock: Clock, onQuiet: () => void) {
    this.#clock = clock;
    this.#onQuiet = onQuiet;
  }

  trigger(): void {
    const now = this.#clock.now();
    this.#firstTriggerAtMs ??= now;
    this.#cancelTimer?.();
    const delayMs = Math.max(0, Math.min(QUIET_MS, this.#firstTriggerAtMs + QUIET_MAX_MS - now));
    this.#cancelTimer = this.#clock.setTimer(delayMs, () => {
      this.cancel();
      this.#onQuiet();
    });
  }

  cancel(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#firstTriggerAtMs = undefined;
  }
}
