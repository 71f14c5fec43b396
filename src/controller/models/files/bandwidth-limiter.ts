import { type Clock, delay } from "../../../base/clock.ts";

/** How far a download may run ahead after a pause. */
const BURST_MS = 100;

/** One cap for all downloads together. Those who wait are served in the order in which they came. */
export class BandwidthLimiter {
  readonly #clock: Clock;
  readonly #bytesPerMs: number | undefined;
  /** When all that was taken so far will have been due. */
  #dueMs = 0;

  constructor(clock: Clock, bytesPerSecond: number | undefined) {
    this.#clock = clock;
    this.#bytesPerMs = bytesPerSecond === undefined ? undefined : bytesPerSecond / 1000;
  }

  /** Undefined where there is nothing to wait for. Not reading on is what slows the sender down. */
  acquire(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    if (this.#bytesPerMs === undefined) return undefined;
    const nowMs = this.#clock.now();
    this.#dueMs = Math.max(this.#dueMs, nowMs - BURST_MS) + bytes / this.#bytesPerMs;
    const waitMs = this.#dueMs - nowMs;
    return waitMs > 0 ? delay(this.#clock, waitMs, signal) : undefined;
  }
}
