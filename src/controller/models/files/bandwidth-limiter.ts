import { type Clock, delay } from "../../../base/clock.ts";

/** The time for which a download may exceed the limit after a pause. */
const BURST_MS = 100;

/** One bandwidth limit for all downloads together. Waiting downloads are served in the order of their calls. */
export class BandwidthLimiter {
  readonly #clock: Clock;
  readonly #bytesPerMs: number | undefined;
  /** The time at which the acquired bytes no longer exceed the limit. Until then, callers of `acquire` wait. */
  #dueMs = 0;

  constructor(clock: Clock, bytesPerSecond: number | undefined) {
    this.#clock = clock;
    this.#bytesPerMs = bytesPerSecond === undefined ? undefined : bytesPerSecond / 1000;
  }

  /**
   * Reserves bandwidth for received bytes. Returns undefined if the caller may go on reading; otherwise a promise for
   * which the caller has to wait before it reads again, so that the sender slows down.
   */
  acquire(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    if (this.#bytesPerMs === undefined) return undefined;
    const nowMs = this.#clock.now();
    this.#dueMs = Math.max(this.#dueMs, nowMs - BURST_MS) + bytes / this.#bytesPerMs;
    const waitMs = this.#dueMs - nowMs;
    return waitMs > 0 ? delay(this.#clock, waitMs, signal) : undefined;
  }
}
