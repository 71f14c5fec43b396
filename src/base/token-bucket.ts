import type { Clock } from "./clock.ts";

/** So many at once, and so many a second in the long run. */
export interface RateLimit {
  readonly burst: number;
  readonly perSecond: number;
}

/** Counts what somebody does against a rate. */
export class TokenBucket {
  readonly #rate: RateLimit;
  readonly #clock: Clock;
  #tokens: number;
  #countedAtMs: number;

  constructor(rate: RateLimit, clock: Clock) {
    this.#rate = rate;
    this.#clock = clock;
    this.#tokens = rate.burst;
    this.#countedAtMs = clock.now();
  }

  /** False: too fast. What is refused costs nothing, so that whoever slows down is served again at once. */
  tryConsume(): boolean {
    const now = this.#clock.now();
    // A clock that was set back gives nothing, and takes nothing away.
    const gained = (Math.max(0, now - this.#countedAtMs) / 1_000) * this.#rate.perSecond;
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + gained);
    this.#countedAtMs = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
