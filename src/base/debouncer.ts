import type { Clock } from "./clock.ts";

/**
 * The default time from the last trigger to the callback, in milliseconds: long enough for an editor to finish saving,
 * and too short for a user to notice.
 */
const QUIET_MS = 50;
/**
 * The default maximum time from the first trigger to the callback, in milliseconds, even if further triggers follow.
 */
const QUIET_MAX_MS = 500;

/**
 * Combines many triggers into few calls of `onQuiet`: one call after `quietMs` without a further trigger, and at the
 * latest `quietMaxMs` after the first trigger.
 */
export class Debouncer {
  readonly #clock: Clock;
  readonly #onQuiet: () => void;
  readonly #quietMs: number;
  readonly #quietMaxMs: number;
  #firstTriggerAtMs: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(
    clock: Clock,
    onQuiet: () => void,
    { quietMs = QUIET_MS, quietMaxMs = QUIET_MAX_MS } = {},
  ) {
    this.#clock = clock;
    this.#onQuiet = onQuiet;
    this.#quietMs = quietMs;
    this.#quietMaxMs = quietMaxMs;
  }

  trigger(): void {
    const now = this.#clock.now();
    this.#firstTriggerAtMs ??= now;
    this.#cancelTimer?.();
    const latestMs = this.#firstTriggerAtMs + this.#quietMaxMs;
    const delayMs = Math.max(0, Math.min(this.#quietMs, latestMs - now));
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
