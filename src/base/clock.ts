/**
 * The only source of time. Everything that waits or stamps takes a Clock, so that the simulation
 * can run hours of back-off in milliseconds.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /**
   * Runs `callback` once after `delayMs` (0 or more). Returns a function that takes it back;
   * calling that after the callback ran does nothing.
   */
  setTimer(delayMs: number, callback: () => void): () => void;
}

/** setTimeout holds its delay in 31 bits; a longer one would fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(0, delayMs), TIMER_MAX_MS));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export function delay(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.setTimer(delayMs, () => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    });
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** An RFC 3339 timestamp in UTC with milliseconds, as every resource and event carries it. */
export function timestamp(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
