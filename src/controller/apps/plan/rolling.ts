import * as labels from "../../labels.ts";
import type { ObservedContainer } from "../../runtime/port.ts";
import { planContainers, planCreations, planOldRestart } from "./containers.ts";
import { decideCreations } from "./creations.ts";
import { classifyContainers, getSpecHash, hasEnded, isUp } from "./observed-containers.ts";
import { buildStop, type PlanDraft } from "./plan-draft.ts";
import { isKeptBack, isRouted, isServing, planRoute } from "./plan-route.ts";

/**
 * Plans the strategy rolling. The new version starts next to the old one, and receives the App's requests when every
 * replica is healthy. The old version is kept during the observation window, in which Berth may switch back. Afterwards
 * it is stopped when its last requests have ended, or when the drain time is over:
 *
 *   candidate -> healthy -> switch -> window -> old drains -> old stops
 *                             ^------ failed, switch back
 *
 * The due step follows from labels, health, the route table and `served`, the versions that have received requests,
 * which the status contains. The remaining wait of a step follows from the observations of this process (`firstSeen`).
 */
export function planRolling(draft: PlanDraft): void {
  const { desired, observed } = draft;
  const { kept, surplus, old } = classifyContainers(desired, observed.containers);
  const creations = decideCreations(draft, kept);
  const steps = draft.collect(() => {
    const isHeld = creations.areHeld && old.length > 0;
    if (!observed.isStalled && !isHeld) planContainers(draft, kept);
    if (!creations.areHeld) planCreations(draft, creations.specs, creations.cause);
    planSurplus(draft, surplus);
    planOld(draft, old);
  });
  planRoute(draft, steps);
  draft.add(...steps);
}

function planOld(draft: PlanDraft, old: readonly ObservedContainer[]): void {
  const { desired } = draft;
  for (const container of old) {
    const role = getRolloutRole(draft, container);
    if (role === "done") planEnd(draft, container, `replaced by generation ${desired.generation}`);
    else if (role === "abandoned")
      planEnd(draft, container, "a newer version replaced this one before its first request");
    else if (role === "serving" && hasEnded(container)) planOldRestart(draft, container);
  }
}

/** Plans the end of surplus replicas that have drained, in the same steps as for a replaced version. */
function planSurplus(draft: PlanDraft, surplus: readonly ObservedContainer[]): void {
  const cause = `${draft.desired.containers.length} wanted`;
  for (const container of surplus) {
    if (isServing(draft.desired, draft.observed, container)) continue;
    const sinceMs = draft.observed.firstSeen.idleSince.get(container.id);
    if (hasDrained(draft, container, sinceMs, sinceMs)) planEnd(draft, container, cause);
  }
}

/** Plans to stop a running container in the background, or to remove a container that has ended. */
function planEnd(draft: PlanDraft, container: ObservedContainer, cause: string): void {
  const { desired, observed } = draft;
  if (container.state === "removing") return;
  if (!isUp(container)) {
    draft.add({ type: "removeContainer", id: container.id, name: container.name, cause });
    return;
  }
  // The engine reports the end of a container with an event, which may be lost. The App is therefore also reconciled
  // after a delay.
  draft.requeueAt(observed.nowMs + STOPPING_RETRY_MS);
  if (!observed.stopping.has(container.id))
    draft.add(buildStop(container, desired.app.stopGraceMs, cause, true));
}

const STOPPING_RETRY_MS = 1_000;

/** The time in which the ingress may still open a connection for a request that it accepted before the switch. */
const LATE_CONNECTION_MS = 2_000;
const DRAIN_CHECK_MIN_MS = 250;
const DRAIN_CHECK_MAX_MS = 5_000;

/**
 * True if the container has ended, if it has no open requests, or if its drain time, which begins at `sinceMs`, is
 * over. `lastRequestMs` is the time when the ingress last sent the container a request.
 */
function hasDrained(
  draft: PlanDraft,
  container: ObservedContainer,
  sinceMs: number | undefined,
  lastRequestMs: number | undefined,
): boolean {
  if (!isUp(container)) return true;
  const { desired, observed } = draft;
  const { nowMs } = observed;
  const beganMs = sinceMs ?? nowMs;
  const drainedAtMs = beganMs + desired.app.rollout.drainMs;
  const connections = observed.connections.get(container.id);
  const idleAtMs = (lastRequestMs ?? nowMs) + LATE_CONNECTION_MS;
  if (nowMs >= drainedAtMs || (connections === 0 && nowMs >= idleAtMs)) return true;
  draft.requeueAt(drainedAtMs);
  const checkMs = Math.max(DRAIN_CHECK_MIN_MS, Math.min((nowMs - beganMs) / 8, DRAIN_CHECK_MAX_MS));
  if (connections !== undefined) draft.requeueAt(Math.max(idleAtMs, nowMs + checkMs));
  return false;
}

/**
 * The role of an old container. serving: its version receives the requests, or may receive them again. draining: it
 * received requests, and may still be answering some. done: it has answered all of its requests. abandoned: its version
 * was replaced before it received a request.
 */
type RolloutRole = "serving" | "draining" | "done" | "abandoned";

function getRolloutRole(draft: PlanDraft, container: ObservedContainer): RolloutRole {
  const { desired, observed } = draft;
  const { route, served } = observed;
  const hasTakenOver = isRouted(desired, observed);
  if (isServing(desired, observed, container) || isKeptBack(observed, container)) return "serving";
  if (getSpecHash(container) === route?.version && route.version !== desired.hash) return "serving";
  // If the container was created without an ingress or a port, the route cannot show if it received requests.
  const isPublished = container.labels[labels.LOOPBACK_PORT] !== undefined;
  const isOutside = isPublished || container.labels[labels.PORT] === undefined;
  const hasServed = served.includes(getSpecHash(container)) || isPublished;
  if (!hasServed) return "abandoned";
  if (isOutside && !hasTakenOver) return "serving";
  if (!route) return hasTakenOver ? "done" : "serving";
  const sinceMs = Math.max(route.sinceMs, observed.window?.endedAt ?? 0);
  return hasDrained(draft, container, sinceMs, route.sinceMs) ? "done" : "draining";
}
