import type { ReconcileState } from "../../resources/app-status.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { Plan } from "./plan/plan-types.ts";
import * as reconcileState from "./reconcile-state.ts";
import { windowRequeueAtMs } from "./rollout-window.ts";

const UNFINISHED_REQUEUE_MS = 250;
/** The delay until the next reconcile while the engine is removing or restarting a container. */
const ENGINE_BUSY_REQUEUE_MS = 500;
/** The interval at which the status shows the progress of a pull or a build. */
const PROGRESS_REQUEUE_MS = 1_000;

/**
 * Returns the milliseconds until the next reconcile if no event arrives; null means that the next resync reconciles
 * the App.
 */
export function requeueAfter(input: {
  readonly desired: DesiredApp;
  readonly nowMs: number;
  readonly isFinished: boolean;
  readonly isDone: boolean;
  readonly isStalled: boolean;
  /**
   * True if an earlier revision runs while the source of the spec is resolved. The progress deadline, and the time at
   * which a version becomes stable, are then ignored.
   */
  readonly isHeld: boolean;
  readonly plan: Plan | null;
  readonly memory: ReconcileState;
  readonly containers: readonly ObservedContainer[];
  readonly isObtaining: boolean;
  readonly isProven: boolean;
}): number | null {
  const { desired, nowMs, isDone, plan, memory, containers } = input;
  const waits: number[] = input.isFinished ? [] : [nowMs + UNFINISHED_REQUEUE_MS];
  if (plan?.restartAtMs) waits.push(plan.restartAtMs);
  if (plan?.requeueAtMs) waits.push(plan.requeueAtMs);
  if (containers.some(({ state }) => state === "removing" || state === "restarting"))
    waits.push(nowMs + ENGINE_BUSY_REQUEUE_MS);
  const readySince = memory.attempt?.readySince ?? null;
  if (isDone && !input.isHeld && readySince !== null && !reconcileState.isStable(memory, desired))
    waits.push(readySince + reconcileState.MIN_READY_MS);
  const windowEndMs = windowRequeueAtMs(memory, desired, nowMs);
  if (windowEndMs !== null) waits.push(windowEndMs);
  const deadline =
    isDone || input.isStalled || input.isHeld
      ? null
      : reconcileState.progressDeadlineAtMs(memory, desired, input.isProven);
  // Only a progress deadline in the future counts. A past deadline has no effect during the observation window, and
  // would queue the App again after every run.
  if (deadline !== null && deadline >= nowMs) waits.push(deadline + 1);
  if (input.isObtaining) waits.push(nowMs + PROGRESS_REQUEUE_MS);
  return waits.length === 0 ? null : Math.max(1, Math.min(...waits) - nowMs);
}
