export interface BackoffOptions {
  /** Delay after the first failure. */
  readonly firstMs: number;
  /** The longest delay before jitter. */
  readonly maxMs: number;
  /** Share of the delay that is random, from 0 (none, the default) to 1: 0.2 gives 80 to 100 % of the delay. */
  readonly jitter?: number;
  /** From 0 up to, but not including, 1. Needed if `jitter` is set. */
  readonly random?: () => number;
}

/**
 * Milliseconds to wait after a failure, doubled for each earlier failure in a row. `failures` counts the earlier ones,
 * so that 0 gives `firstMs`. With jitter, callers that failed together do not come back together.
 */
export function backoffMs(failures: number, options: BackoffOptions): number {
  const { firstMs, maxMs, jitter = 0, random = () => 0 } = options;
  // 2 ** 30 ms is twelve days, more than any limit here, and far from the end of exact integers.
  const delayMs = Math.min(firstMs * 2 ** Math.min(failures, 30), maxMs);
  return Math.round(delayMs * (1 - jitter + jitter * random()));
}
