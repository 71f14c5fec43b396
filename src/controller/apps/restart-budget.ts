/**
 * The rules for restarting a container that ended. The first restart is immediate; the next one follows after
 * `backoffMs`, which doubles each time. A version that was never stable is given up after `attempts` in `intervalMs`.
 * A version that was stable is restarted without a limit, with a delay of up to RESTART_DELAY_MAX_MS, because the cause
 * of its failure is outside of it and may disappear.
 */
export interface RestartPolicy {
  readonly attempts: number;
  readonly intervalMs: number;
  readonly backoffMs: number;
}

/**
 * The longest delay between two restarts of a version that was stable. It equals the longest back-off of the
 * reconciler.
 */
export const RESTART_DELAY_MAX_MS = 5 * 60_000;
/**
 * The longest gap between two restarts that belong to one streak. During a longer gap, the container ran for at least
 * half of the time, because the delay before a restart is at most half of this value.
 */
const STREAK_GAP_MAX_MS = 2 * RESTART_DELAY_MAX_MS;
/**
 * The time for which restarts are remembered, in milliseconds. It is long enough to count successive restarts until the
 * delay between them no longer grows.
 */
const RESTARTS_KEPT_MS = 60 * 60_000;

export type RestartDecision =
  | { readonly type: "now" }
  | { readonly type: "wait"; readonly untilMs: number }
  | { readonly type: "exhausted" };

export type RestartHistory = readonly { readonly of: string; readonly at: number }[];

/** Returns the restarts within the interval of the policy, oldest first. */
export function recentRestarts(
  restarts: RestartHistory,
  policy: RestartPolicy,
  nowMs: number,
): RestartHistory {
  return restarts.filter(({ at }) => at > nowMs - policy.intervalMs);
}

/** Returns the restarts that later decisions may depend on, oldest first. */
export function keptRestarts(
  restarts: RestartHistory,
  policy: RestartPolicy,
  nowMs: number,
): RestartHistory {
  const keptMs = Math.max(policy.intervalMs, RESTARTS_KEPT_MS);
  return restarts.filter(({ at }) => at > nowMs - keptMs);
}

/** Decides if and when the container with this budget key is restarted. Restarts of other containers do not count. */
export function decideRestart(
  restarts: RestartHistory,
  budgetKey: string,
  policy: RestartPolicy,
  nowMs: number,
  isEndless: boolean,
): RestartDecision {
  const recent = recentRestarts(restarts, policy, nowMs).filter(
    (restart) => restart.of === budgetKey,
  );
  const streak = countStreak(restarts, budgetKey, nowMs);
  const isEndlessHere = isEndless && policy.attempts > 0;
  if (recent.length >= policy.attempts && !isEndlessHere) return { type: "exhausted" };
  const last = restarts.findLast(({ of }) => of === budgetKey)?.at;
  const failures = isEndlessHere ? Math.max(streak, recent.length) : recent.length;
  if (last === undefined || failures === 0) return { type: "now" };
  const delayMs = policy.backoffMs * 2 ** Math.min(failures - 1, 30);
  const untilMs = last + (isEndlessHere ? Math.min(delayMs, RESTART_DELAY_MAX_MS) : delayMs);
  return untilMs <= nowMs ? { type: "now" } : { type: "wait", untilMs };
}

/** True if the container was restarted more often in a row than the budget of a new version allows. */
export function isBeyondBudget(
  restarts: RestartHistory,
  budgetKey: string,
  policy: RestartPolicy,
  nowMs: number,
): boolean {
  return policy.attempts > 0 && countStreak(restarts, budgetKey, nowMs) >= policy.attempts;
}

/**
 * Counts the latest restarts of a container, back to the first gap between two restarts that exceeds STREAK_GAP_MAX_MS.
 */
function countStreak(restarts: RestartHistory, budgetKey: string, nowMs: number): number {
  let nextMs = nowMs;
  let count = 0;
  for (const { of, at } of restarts.toReversed()) {
    if (of !== budgetKey) continue;
    if (nextMs - at > STREAK_GAP_MAX_MS) break;
    nextMs = at;
    count += 1;
  }
  return count;
}
