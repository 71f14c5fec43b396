/**
 * Waits between attempts: soon, for a receiver that restarts, and then for hours, for one whose owner
 * is asleep. Six attempts over some two and a half hours, after which a person can ask for another.
 */
const WAITS_MS = [10_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000] as const;
/** A receiver that asks for more time than this gets this: its owner waits for the news. */
export const RETRY_AFTER_MAX_MS = 2 * 3_600_000;

/** Milliseconds until the next attempt after `attempts` failed ones; undefined: there is none. `random` gives 0 to 1. */
export function retryWaitMs(
  attempts: number,
  askedForMs: number | undefined,
  random: () => number,
): number | undefined {
  const waitMs = WAITS_MS[attempts - 1];
  if (waitMs === undefined) return undefined;
  // Up to a fifth later, so that many receivers on one machine are not called in one moment.
  const spreadMs = Math.round(waitMs * (1 + 0.2 * random()));
  return Math.max(spreadMs, Math.min(askedForMs ?? 0, RETRY_AFTER_MAX_MS));
}
