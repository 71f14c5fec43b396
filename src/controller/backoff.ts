/** First delay of a key that failed, doubled each time: 250 ms, 500 ms, 1 s … */
export const BACKOFF_BASE_MS = 250;
/** The longest wait of a key that keeps failing: the cap that controller-runtime users tend to set. */
export const BACKOFF_MAX_MS = 5 * 60_000;

/**
 * Milliseconds to wait after the n-th failure in a row (n from 0), with a jitter of up to a fifth so
 * that apps that failed together do not come back together. `random` gives 0 to 1.
 */
export function backoffMs(failures: number, random: () => number): number {
  const exponent = Math.min(failures, 30);
  const delayMs = Math.min(BACKOFF_BASE_MS * 2 ** exponent, BACKOFF_MAX_MS);
  return Math.round(delayMs * (0.8 + 0.2 * random()));
}
