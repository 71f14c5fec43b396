/**
 * The waits between attempts. The first waits are short, for a receiver that restarts; later ones take hours, for a
 * receiver whose operator is asleep. After the last attempt, the user can request another one.
 */
const WAITS_MS = [10_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000] as const;
/** The longest wait that a receiver can request with Retry-After. */
export const RETRY_AFTER_MAX_MS = 2 * 3_600_000;

/**
 * Returns the milliseconds until the next attempt after `attempts` failed attempts; undefined if there is no further
 * attempt. `random` returns a number from 0 to 1.
 */
export function retryWaitMs(
  attempts: number,
  askedForMs: number | undefined,
  random: () => number,
): number | undefined {
  const waitMs = WAITS_MS[attempts - 1];
  if (waitMs === undefined) return undefined;
  // The wait is up to a fifth longer, so that many receivers on one machine are not called at the same moment.
  const spreadMs = Math.round(waitMs * (1 + 0.2 * random()));
  return Math.max(spreadMs, Math.min(askedForMs ?? 0, RETRY_AFTER_MAX_MS));
}
