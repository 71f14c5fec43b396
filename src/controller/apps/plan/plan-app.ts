import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import { getSpecHash, isUp } from "./observed-containers.ts";
import { buildRemovals, buildStop, PlanDraft } from "./plan-draft.ts";
import { planRouteRemoval } from "./plan-route.ts";
import type { ObservedApp, Operation, Plan } from "./plan-types.ts";
import { planRecreate } from "./recreate.ts";
import { planRolling } from "./rolling.ts";

/**
 * plan(desired, observed) decides everything that is done to an App, and does nothing: the
 * reconciler executes it, a dry run prints it, tests ask it. It holds no clock, no engine, no store.
 */
export function planApp(desired: DesiredApp, observed: ObservedApp): Plan {
  const draft = new PlanDraft(desired, observed);
  if (desired.app.suspend) return draft.finish();
  if (!desired.app.running) planStopped(draft);
  else if (desired.strategy.type === "rolling") planRolling(draft);
  else planRecreate(draft);
  return draft.finish();
}

/** True where a container's end counts against its App, or is about to. */
export function hasUnexpectedEnd({ operations, exhausted, restartAtMs }: Plan): boolean {
  return (
    exhausted.length > 0 ||
    restartAtMs !== null ||
    operations.some(
      (operation) => operation.type === "startContainer" && operation.restart !== null,
    )
  );
}

/** Takes every container away; the deletion of an App, and what is left of one that is gone. */
export function planRemoval(
  containers: readonly ObservedContainer[],
  graceMs: number,
  cause: string,
): Operation[] {
  return buildRemovals(containers, graceMs, cause);
}

/**
 * A stopped App keeps the containers of its version, so that a start is quick. Those of the version
 * before are kept, too, until there are some of its own: it may be stopped while it is still being built.
 */
function planStopped(draft: PlanDraft): void {
  const { desired, observed } = draft;
  const { stopGraceMs } = desired.app;
  const isOwn = (container: ObservedContainer) => getSpecHash(container) === desired.hash;
  const hasOwn = observed.containers.some(isOwn);
  const isKept = (container: ObservedContainer) =>
    isOwn(container) || (!hasOwn && observed.served.includes(getSpecHash(container)));
  planRouteRemoval(draft, "the app is to be stopped");
  const up = observed.containers.filter((container) => isKept(container) && isUp(container));
  draft.add(
    ...up.map((container) => buildStop(container, stopGraceMs, "the app is to be stopped")),
  );
  const others = observed.containers.filter((container) => !isKept(container));
  draft.add(...buildRemovals(others, stopGraceMs, "left from another version"));
}
