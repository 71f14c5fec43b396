import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import { getSpecHash, isUp } from "./observed-containers.ts";
import { buildRemovals, buildStop, PlanDraft } from "./plan-draft.ts";
import { planRouteRemoval } from "./plan-route.ts";
import type { ObservedApp, Operation, Plan } from "./plan-types.ts";
import { planRecreate } from "./recreate.ts";
import { planRolling } from "./rolling.ts";

/**
 * Decides all operations on an App. The reconciler executes the plan, and a dry run reports it. Pure: it uses no
 * clock, no engine and no store.
 */
export function planApp(desired: DesiredApp, observed: ObservedApp): Plan {
  const draft = new PlanDraft(desired, observed);
  if (desired.app.suspend) return draft.finish();
  if (!desired.app.running) planStopped(draft);
  else if (observed.isCompleted) planCompleted(draft);
  else if (desired.strategy.type === "rolling") planRolling(draft);
  else planRecreate(draft);
  return draft.finish();
}

/** True if the end of a container counts, or is about to count, against the restart budget of its App. */
export function hasUnexpectedEnd({ operations, exhausted, restartAtMs }: Plan): boolean {
  return (
    exhausted.length > 0 ||
    restartAtMs !== null ||
    operations.some(
      (operation) => operation.type === "startContainer" && operation.restart !== null,
    )
  );
}

/** Plans the removal of all containers of an App that is being deleted or no longer exists. */
export function planRemoval(
  containers: readonly ObservedContainer[],
  graceMs: number,
  cause: string,
): Operation[] {
  return buildRemovals(containers, graceMs, cause);
}

/** Keeps the container of a one-shot that has run to its end, for its log, and removes those of other versions. */
function planCompleted(draft: PlanDraft): void {
  const { desired, observed } = draft;
  planRouteRemoval(draft, "the app accepts no requests");
  const others = observed.containers.filter((item) => getSpecHash(item) !== desired.hash);
  draft.add(...buildRemovals(others, desired.app.stopGraceMs, "it is of another version"));
}

/**
 * Plans to stop the containers of the desired version and to keep them, so that a later start is quick. If there are
 * none yet, the containers of versions that served are kept, because an App may be stopped while its new version is
 * still being built.
 */
function planStopped(draft: PlanDraft): void {
  const { desired, observed } = draft;
  const { stopGraceMs } = desired.app;
  const isOwn = (container: ObservedContainer) => getSpecHash(container) === desired.hash;
  const hasOwn = observed.containers.some(isOwn);
  const isKept = (container: ObservedContainer) =>
    isOwn(container) || (!hasOwn && observed.served.includes(getSpecHash(container)));
  planRouteRemoval(draft, "the spec sets running to false");
  const up = observed.containers.filter((container) => isKept(container) && isUp(container));
  draft.add(
    ...up.map((container) => buildStop(container, stopGraceMs, "the spec sets running to false")),
  );
  const others = observed.containers.filter((container) => !isKept(container));
  draft.add(...buildRemovals(others, stopGraceMs, "it is of another version"));
}
