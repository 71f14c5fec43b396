/**
 * The only source of time. Code that waits or makes timestamps uses a Clock, so that the simulation
 * runs hours of back-off in milliseconds.
 */
export interface Clock {
  /** Returns milliseconds since the Unix epoch. */
  now(): number;
  /**
   * Runs `callback` once after `delayMs` (0 or more). Returns a function that cancels the timer, and that has no effect
   * after the callback has run.
   */
  setTimer(delayMs: number, callback: () => void): () => void;
}

/** Longest delay of setTimeout, which stores it in 31 bits; a longer timer would fire immediately. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(0, delayMs), TIMER_MAX_MS));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves after `delayMs` milliseconds. Rejects with the signal's reason as soon as the signal aborts. */
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

/** Returns an RFC 3339 timestamp in UTC with milliseconds, the format of all resources and events. */
export function timestamp(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
