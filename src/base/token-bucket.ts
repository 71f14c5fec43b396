import type { Clock } from "./clock.ts";

/** A rate limit: the size of a burst, and the sustained rate per second. */
export interface RateLimit {
  readonly burst: number;
  readonly perSecond: number;
}

/** Limits how often a caller may do something, by the token bucket algorithm. */
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

  /**
   * Consumes one token; returns false if none is left. A refusal consumes no token, so that a caller that slows down
   * succeeds again.
   */
  tryConsume(): boolean {
    const now = this.#clock.now();
    // If the clock was set back, tokens are neither added nor removed.
    const gained = (Math.max(0, now - this.#countedAtMs) / 1_000) * this.#rate.perSecond;
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + gained);
    this.#countedAtMs = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
