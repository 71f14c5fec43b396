import { backoffMs } from "../../../base/backoff.ts";
import { type Clock, delay } from "../../../base/clock.ts";
import { sourceUnreachableError } from "./download-errors.ts";
import type { RetryableError } from "./retryable-error.ts";

export interface RetryLimits {
  /** A request that receives nothing for this time is cancelled. */
  readonly stallMs: number;
  /** The delay before the first retry; it doubles with each retry that brings no new byte. */
  readonly retryMs: number;
  readonly retriesMax: number;
}

/** The default limits. All retries together take about 30 s; then the back-off of the reconciler takes over. */
export const defaultRetryLimits: RetryLimits = { stallMs: 30_000, retryMs: 500, retriesMax: 6 };

const RETRY_MS_MAX = 15_000;
/**
 * If a server asks for a longer delay in `Retry-After`, the download fails, and the back-off of the reconciler takes
 * over.
 */
const RETRY_AFTER_MS_MAX = 5 * 60_000;

/**
 * The back-off that all connections of one download share. They usually fail together, so a failure during a wait
 * does not extend the wait. Any new byte resets the number of failures.
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

  /** The maximum number of connections. Halved when the server is overloaded, and never raised again. */
  get connectionsMax(): number {
    return this.#connectionsMax;
  }

  async wait(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    for (let waitMs = this.#remainingMs(); waitMs > 0; waitMs = this.#remainingMs())
      await delay(this.#clock, waitMs, signal);
  }

  /** Counts a failure. Throws after too many failures without a new byte, or if the server requests a long delay. */
  recordFailure(error: RetryableError, doneBytes: number): void {
    const isProgress = doneBytes > this.#mostBytes;
    this.#mostBytes = Math.max(this.#mostBytes, doneBytes);
    if (isProgress) this.#failures = 0;
    const isWaiting = this.#remainingMs() > 0;
    if (!isWaiting) {
      this.#failures += 1;
      if (error.kind === "overloaded")
        this.#connectionsMax = Math.max(1, Math.floor(this.#connectionsMax / 2));
    }
    if (this.#failures > this.#limits.retriesMax) throw error.finalError;
    const requestedMs = error.kind === "overloaded" ? (error.retryAfterMs ?? 0) : 0;
    if (requestedMs > RETRY_AFTER_MS_MAX)
      throw sourceUnreachableError(
        `${error.finalError.message}, and accepts no request for ${Math.ceil(requestedMs / 60_000)} minutes (Retry-After)`,
        error.finalError,
      );
    const delays = { firstMs: this.#limits.retryMs, maxMs: RETRY_MS_MAX };
    const ownMs = backoffMs(this.#failures - 1, delays);
    // The jitter spreads the retries of downloads that failed at the same time.
    const jitteredMs = isWaiting ? 0 : ownMs * (0.75 + Math.random() / 2);
    this.#notBeforeMs = Math.max(
      this.#notBeforeMs,
      this.#clock.now() + Math.max(requestedMs, jitteredMs),
    );
  }

  #remainingMs(): number {
    return this.#notBeforeMs - this.#clock.now();
  }
}
