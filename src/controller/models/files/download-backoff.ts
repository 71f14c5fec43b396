import { type Clock, delay } from "../../../base/clock.ts";
import { sourceUnreachableError } from "./download-errors.ts";
import type { RetryableError } from "./retryable-error.ts";

/** For tests, which have less time. */
export interface RetryLimits {
  /** How long nothing may come before a connection is taken to be dead. */
  readonly stallMs: number;
  /** Before the first retry; doubled for each further one that brings nothing. */
  readonly retryMs: number;
  readonly retriesMax: number;
}

/** Some 30 s in all; then the reconciler's own back-off takes over. */
export const defaultRetryLimits: RetryLimits = { stallMs: 30_000, retryMs: 500, retriesMax: 6 };

const RETRY_MS_MAX = 15_000;
/** A server that wants to be left alone for longer is left alone by the reconciler. */
const RETRY_AFTER_MS_MAX = 5 * 60_000;

/**
 * When the connections of one download may ask again. They fail together, so a failure during a wait is
 * part of the one that began it; and any new byte makes the count begin anew.
 */
export class DownloadBackoff {
  readonly #clock: Clock;
  readonly #limits: RetryLimits;
  #connectionsMax: number;
  #failures = 0;
  #notBeforeMs = 0;
  #mostBytes = 0;

  constructor(clock: Clock, limits: RetryLimits, connectionsMax: number) {
    this.#clock = clock;
    this.#limits = limits;
    this.#connectionsMax = connectionsMax;
  }

  /** How many may be open; fewer after the server has said that it has too much to do. */
  get connectionsMax(): number {
    return this.#connectionsMax;
  }

  async wait(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    for (let waitMs = this.#remainingMs(); waitMs > 0; waitMs = this.#remainingMs())
      await delay(this.#clock, waitMs, signal);
  }

  /** Throws what the setback finally comes to, when there were too many without a new byte. */
  recordFailure(error: RetryableError, doneBytes: number): void {
    const isProgress = doneBytes > this.#mostBytes;
    this.#mostBytes = Math.max(this.#mostBytes, doneBytes);
    if (isProgress) this.#failures = 0;
    const { overload: busy } = error;
    const isOfThisWait = this.#remainingMs() > 0;
    if (!isOfThisWait) {
      this.#failures += 1;
      if (busy) this.#connectionsMax = Math.max(1, Math.floor(this.#connectionsMax / 2));
    }
    if (this.#failures > this.#limits.retriesMax) throw error.finalError;
    const askedMs = busy?.retryAfterMs ?? 0;
    if (askedMs > RETRY_AFTER_MS_MAX)
      throw sourceUnreachableError(
        `${error.finalError.message}, and asks to be left alone for ${Math.ceil(askedMs / 60_000)} minutes`,
        error.finalError,
      );
    const ownMs = Math.min(RETRY_MS_MAX, this.#limits.retryMs * 2 ** (this.#failures - 1));
    // Not all who were cut off at once should be back at once.
    const jitteredMs = isOfThisWait ? 0 : ownMs * (0.75 + Math.random() / 2);
    this.#notBeforeMs = Math.max(
      this.#notBeforeMs,
      this.#clock.now() + Math.max(askedMs, jitteredMs),
    );
  }

  #remainingMs(): number {
    return this.#notBeforeMs - this.#clock.now();
  }
}
