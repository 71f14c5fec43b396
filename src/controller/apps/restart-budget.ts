/**
 * When a container that ended may be started again: the first time at once, then after `backoffMs`,
 * doubled each time, and never more than `attempts` times in `intervalMs`.
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

/** The restarts that still count, oldest first. */
export function recentRestarts(
  restarts: RestartHistory,
  policy: RestartPolicy,
  nowMs: number,
): RestartHistory {
  return restarts.filter(({ at }) => at > nowMs - policy.intervalMs);
}

/** For the container `of`, by its own restarts. */
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
