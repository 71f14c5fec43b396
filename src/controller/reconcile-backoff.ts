import { backoffMs } from "../base/backoff.ts";

/** The first delay for a key that has failed. It doubles with each further failure: 250 ms, 500 ms, 1 s ... */
export const BACKOFF_BASE_MS = 250;
/** The longest delay before the retry of a key that keeps failing. */
export const BACKOFF_MAX_MS = 5 * 60_000;

/** Returns the milliseconds to wait after the n-th failure in a row (n from 0), with a jitter of up to a fifth. */
export function reconcileBackoffMs(failures: number, random: () => number): number {
  return backoffMs(failures, {
    firstMs: BACKOFF_BASE_MS,
    maxMs: BACKOFF_MAX_MS,
    jitter: 0.2,
    random,
  });
}
