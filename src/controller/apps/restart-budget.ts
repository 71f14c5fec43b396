/**
 * The restarts of a container that ended: the first one at once, then after `backoffMs`, doubled each time, and never
 * more than `attempts` in `intervalMs`.
 */
export interface RestartPolicy {
  readonly attempts: number;
  readonly intervalMs: number;
  readonly backoffMs: number;
}

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

/** Decides on the restart of the container with this budget key; only its own restarts count. */
export function decideRestart(
  restarts: RestartHistory,
  budgetKey: string,
  policy: RestartPolicy,
  nowMs: number,
): RestartDecision {
  const recent = recentRestarts(restarts, policy, nowMs).filter(
    (restart) => restart.of === budgetKey,
  );
  if (recent.length >= policy.attempts) return { type: "exhausted" };
  const last = recent.at(-1)?.at;
  if (last === undefined) return { type: "now" };
  const untilMs = last + policy.backoffMs * 2 ** (recent.length - 1);
  return untilMs <= nowMs ? { type: "now" } : { type: "wait", untilMs };
}
