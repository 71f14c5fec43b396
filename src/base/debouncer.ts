import type { Clock } from "./clock.ts";

/**
 * The time without a further hint after which the call is made, in milliseconds: long enough for an editor to finish
 * saving, and too short for a user to notice.
 */
const QUIET_MS = 50;
/** The longest delay of the call in milliseconds while hints keep arriving. */
const QUIET_MAX_MS = 500;

/**
 * Combines many hints into few calls: one call after QUIET_MS without a further hint, and at the latest QUIET_MAX_MS
 * after the first hint.
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
