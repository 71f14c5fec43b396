import * as labels from "../../labels.ts";
import type { ObservedContainer } from "../../runtime/port.ts";
import { planContainers, planCreations, planOldRestart } from "./containers.ts";
import { decideCreations } from "./creations.ts";
import { type Draft, removals } from "./draft.ts";
import type { Operation } from "./model.ts";
import { hasEnded, hashOf, isUp, sortContainers } from "./observed.ts";
import { isRouted, isServing, planRoute } from "./route.ts";

/**
 * The new version comes up beside the old one, takes over when every replica is healthy, and the old
 * one ends when its last requests have had their time:
 *
 *   candidate -> healthy -> switch -> old drains -> old stops
 *
 * Which of these steps is due follows from labels, health and the route table alone.
 */
export function planRolling(draft: Draft): void {
  const { desired, observed } = draft;
  const { kept, surplus, old } = sortContainers(desired, observed.containers);
  const creations = decideCreations(draft, kept);
  const steps = draft.collect(() => {
    if (!creations.areHeld || old.length === 0) planContainers(draft, kept);
    if (!creations.areHeld) planCreations(draft, creations.specs, creations.cause);
    draft.add(...removals(surplus, desired.app.stopGraceMs, `${desired.containers.length} wanted`));
    planOld(draft, old);
  });
  planRoute(draft, steps);
  draft.add(...steps);
}

function planOld(draft: Draft, old: readonly ObservedContainer[]): void {
  const { desired } = draft;
  const done: ObservedContainer[] = [];
  const abandoned: ObservedContainer[] = [];
  const restarts: Operation[] = [];
  for (const container of old) {
    const part = partOf(draft, container);
    if (part === "done") done.push(container);
    else if (part === "abandoned") abandoned.push(container);
    else if (part === "serving" && hasEnded(container))
      restarts.push(...draft.collect(() => planOldRestart(draft, container)));
  }
  const graceMs = desired.app.stopGraceMs;
  draft.add(
    ...restarts,
    ...removals(abandoned, graceMs, "it was never needed"),
    ...removals(done, graceMs, `replaced by generation ${desired.generation}`),
  );
}

/**
 * serving: of the version that has the requests, which the wanted one has not taken over yet. draining: it had
 * requests, and may still be answering some. done: nobody needs it any more. abandoned: it came up for a version
 * that was overtaken before it got a request.
 */
type Part = "serving" | "draining" | "done" | "abandoned";

function partOf(draft: Draft, container: ObservedContainer): Part {
  const { desired, observed } = draft;
  const { route, nowMs } = observed;
  if (!route) {
    // From a time without an ingress: requests reach it through its own port.
    const isPublished = container.labels[labels.LOOPBACK_PORT] !== undefined;
    return isPublished && !isRouted(desired, observed) ? "serving" : "abandoned";
  }
  const isOfServingVersion = hashOf(container) === route.version;
  if (isOfServingVersion || isServing(desired, observed, container)) return "serving";
  const isPublished = container.labels[labels.LOOPBACK_PORT] !== undefined;
  if (isPublished && route.targets.length === 0) return "serving";
  if (Date.parse(container.createdAt) > route.sinceMs && !isPublished) return "abandoned";
  const drainedAtMs = route.sinceMs + desired.app.rollout.drainMs;
  if (!isUp(container) || nowMs >= drainedAtMs) return "done";
  draft.lookAgainAt(drainedAtMs);
  return "draining";
}
