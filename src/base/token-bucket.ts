import type { Clock } from "./clock.ts";

/** A burst size, and a sustained rate per second. */
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

  /** Returns false above the rate. A refusal consumes no token, so that a caller who slows down succeeds again. */
  tryConsume(): boolean {
    const now = this.#clock.now();
    // A clock that was set back neither adds nor removes tokens.
    const gained = (Math.max(0, now - this.#countedAtMs) / 1_000) * this.#rate.perSecond;
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + gained);
    this.#countedAtMs = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
