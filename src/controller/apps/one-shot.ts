import type { ReconcileState } from "../../resources/app-status.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { getSpecHash, hasEnded } from "./plan/observed-containers.ts";

/**
 * The functions in this file decide whether a one-shot, which is an App whose container runs once to its end, has
 * completed.
 */

/**
 * The maximum number of completed runs that are remembered, so that a rollback to one of their versions does not run it
 * again.
 */
const RUNS_KEPT_MAX = 20;

export function isCompleted(
  { app, version, restartedAt }: Pick<DesiredApp, "app" | "version" | "restartedAt">,
  { completed }: Pick<ReconcileState, "completed">,
): boolean {
  return (
    app.oneShot &&
    completed.restartedAt === restartedAt &&
    completed.runs.some((run) => run.version === version)
  );
}

/**
 * Records the completed run of a one-shot. `hasEndedWithEngine` is true if the engine may have interrupted the run; it
 * is then repeated, whatever its exit code.
 */
export function noteCompleted(
  memory: ReconcileState,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  hasEndedWithEngine: boolean,
): ReconcileState {
  const { app, hash, version, restartedAt } = desired;
  // A container that ended before the attempt began was stopped by the user, or interrupted by the end of Berth.
  const mayCount = app.oneShot && app.running && !hasEndedWithEngine;
  if (!mayCount || memory.attempt?.hash !== hash || isCompleted(desired, memory)) return memory;
  const isDone = containers.some(
    (container) =>
      getSpecHash(container) === hash &&
      hasEnded(container) &&
      container.exitCode === 0 &&
      container.startedAt !== null &&
      !container.error,
  );
  if (!isDone) return memory;
  const others = memory.completed.runs.filter((run) => run.version !== version);
  const runs = [...others, { version, hash }].slice(-RUNS_KEPT_MAX);
  return { ...memory, stalled: null, completed: { runs, restartedAt } };
}
