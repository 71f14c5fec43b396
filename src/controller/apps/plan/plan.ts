import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired.ts";
import { Draft, removals, stop } from "./draft.ts";
import type { ObservedApp, Operation, Plan } from "./model.ts";
import { hashOf, isUp } from "./observed.ts";
import { planRecreate } from "./recreate.ts";
import { planRolling } from "./rolling.ts";
import { planNoRoute } from "./route.ts";

/**
 * plan(desired, observed) decides everything that is done to an App, and does nothing: the
 * reconciler executes it, a dry run prints it, tests ask it. It holds no clock, no engine, no store.
 */
export function planApp(desired: DesiredApp, observed: ObservedApp): Plan {
  const draft = new Draft(desired, observed);
  if (desired.app.suspend) return draft.finish();
  if (!desired.app.running) planStopped(draft);
  else if (desired.strategy.type === "rolling") planRolling(draft);
  else planRecreate(draft);
  return draft.finish();
}

/** True where a container's end counts against its App, or is about to. */
export function hasEndedByItself({ operations, exhausted, restartAtMs }: Plan): boolean {
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
  return removals(containers, graceMs, cause);
}

/**
 * A stopped App keeps the containers of its version, so that a start is quick. Those of the version
 * before are kept, too, until there are some of its own: it may be stopped while it is still being built.
 */
function planStopped(draft: Draft): void {
  const { desired, observed } = draft;
  const { stopGraceMs } = desired.app;
  const isOwn = (container: ObservedContainer) => hashOf(container) === desired.hash;
  const hasOwn = observed.containers.some(isOwn);
  const isKept = (container: ObservedContainer) =>
    isOwn(container) || (!hasOwn && observed.served.includes(hashOf(container)));
  planNoRoute(draft, "the app is to be stopped");
  const up = observed.containers.filter((container) => isKept(container) && isUp(container));
  draft.add(...up.map((container) => stop(container, stopGraceMs, "the app is to be stopped")));
  const others = observed.containers.filter((container) => !isKept(container));
  draft.add(...removals(others, stopGraceMs, "left from another version"));
}
