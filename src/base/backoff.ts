export interface BackoffOptions {
  /** Delay after the first failure. */
  readonly firstMs: number;
  /** The longest delay, before jitter is added. */
  readonly maxMs: number;
  /**
   * Share of the delay that is random, from 0 (no jitter, the default) to 1: with 0.2 the result is 80 to 100 % of
   * the delay.
   */
  readonly jitter?: number;
  /** Returns a random number from 0 up to, but not including, 1. Required if `jitter` is set. */
  readonly random?: () => number;
}

/**
 * Returns the milliseconds to wait after a failure, doubled for each earlier failure in a row. `failures` counts the
 * earlier failures, so that 0 gives `firstMs`. With jitter, callers that failed at the same time do not all retry at
 * the same time.
 */
export function backoffMs(failures: number, options: BackoffOptions): number {
  const { firstMs, maxMs, jitter = 0, random = () => 0 } = options;
  // The exponent is limited to 30: 2 ** 30 ms is twelve days, more than any limit that Berth uses, and is exact as a
  // double.
  const delayMs = Math.min(firstMs * 2 ** Math.min(failures, 30), maxMs);
  return Math.round(delayMs * (1 - jitter + jitter * random()));
}
