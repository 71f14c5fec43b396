import { backoffMs } from "../base/backoff.ts";

/** First delay of a key that failed, doubled each time: 250 ms, 500 ms, 1 s ... */
export const BACKOFF_BASE_MS = 250;
/** The longest wait of a key that keeps failing: the limit that users of controller-runtime tend to set. */
export const BACKOFF_MAX_MS = 5 * 60_000;

/** Milliseconds to wait after the n-th failure in a row (n from 0), with a jitter of up to a fifth. `random` gives 0 to 1. */
export function reconcileBackoffMs(failures: number, random: () => number): number {
  return backoffMs(failures, {
    firstMs: BACKOFF_BASE_MS,
    maxMs: BACKOFF_MAX_MS,
    jitter: 0.2,
    random,
  });
}
