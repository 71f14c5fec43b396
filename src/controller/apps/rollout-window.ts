import type { ReconcileState, RolloutWindow } from "../../resources/app-status.ts";
import type { AppRoute } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { getReplicaIndex, getSpecHash } from "./plan/observed-containers.ts";
import { isRouted, isVersionReady } from "./plan/plan-route.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";

/** The observation window after a switch to a new version; see RolloutWindow. All functions are pure. */

/** The delay before a version is observed again, if its observation window is over but its last probe failed. */
const SUSPECT_REQUEUE_MS = 250;

interface WindowObservation {
  readonly containers: readonly ObservedContainer[];
  readonly health: ReadonlyMap<string, ContainerHealth>;
  readonly route: AppRoute | null;
}

/** True while Berth may still switch back from the version. The version is not Ready before its window has passed. */
export function isObserved({ window }: Pick<ReconcileState, "window">, version: string): boolean {
  return window?.outcome === "open" && window.version === version;
}

/**
 * Opens the observation window of a version that is about to replace `previous`; the window begins when the version is
 * ready.
 */
export function openWindow(version: string, previous: string): RolloutWindow {
  return { version, previous, outcome: "open", since: null, endedAt: null, starts: [] };
}

/** Begins the observation of the given containers of the new version. */
export function beginWindow(
  window: RolloutWindow,
  containers: readonly ObservedContainer[],
  nowMs: number,
): RolloutWindow {
  const starts = containers
    .filter((container) => getSpecHash(container) === window.version)
    .map(({ id, startedAt }) => ({ id, startedAt }));
  return { ...window, since: nowMs, starts };
}

/**
 * Returns the updated observation window after the App was observed. The window may begin, pass, be dropped, or stay
 * unchanged.
 */
export function trackWindow(
  window: RolloutWindow | null,
  desired: DesiredApp,
  observation: WindowObservation,
  { nowMs, hasEndedWithEngine }: { readonly nowMs: number; readonly hasEndedWithEngine: boolean },
): RolloutWindow | null {
  if (window === null || !desired.app.running) return null;
  const { containers, health, route } = observation;
  const hasRequests = !desired.isRouted || route?.version === window.version;
  if (window.outcome === "failed") return desired.isRouted && hasRequests ? window : null;
  if (window.outcome === "passed") {
    const isOver = !containers.some((item) => getSpecHash(item) === window.previous);
    return isOver || !hasRequests ? null : window;
  }
  const isDesired = desired.hash === window.version;
  // The new version receives no requests yet, so its observation has not begun. If another version has become the
  // desired one, the window is replaced with one for that version.
  if (window.since === null && !hasRequests) {
    if (isDesired) return window;
    return desired.hash === window.previous ? null : openWindow(desired.hash, window.previous);
  }
  const hasFailed = findFailedContainer(window, desired, observation) !== undefined;
  // Requests are routed to the previous version again, or always were, so the observation window is dropped.
  if (!hasRequests && !hasFailed) return null;
  // The containers ended together with the engine. That is not a failure of the version, so its observation begins
  // again.
  if (hasEndedWithEngine) return openWindow(window.version, window.previous);
  const works =
    !isDesired || (isVersionReady(desired, containers, health) && isRouted(desired, observation));
  if (window.since === null) return works ? beginWindow(window, containers, nowMs) : window;
  if (hasFailed) return isDesired ? window : { ...window, outcome: "failed" };
  const isOver = nowMs >= window.since + desired.app.rollout.observeMs;
  const isSuspect = containers.some(
    (item) => getSpecHash(item) === window.version && health.get(item.id)?.isSuspect === true,
  );
  return isOver && works && !isSuspect ? { ...window, outcome: "passed", endedAt: nowMs } : window;
}

/**
 * Returns when a version in its observation window has to be observed again, in epoch milliseconds; null if no
 * observation window has begun.
 */
export function windowRequeueAtMs(
  { window }: Pick<ReconcileState, "window">,
  desired: DesiredApp,
  nowMs: number,
): number | null {
  if (window?.outcome !== "open" || window.since === null) return null;
  return Math.max(window.since + desired.app.rollout.observeMs, nowMs + SUSPECT_REQUEUE_MS);
}

export interface FailedContainer {
  readonly container: ObservedContainer;
  readonly failure: "ended" | "restarted" | "unhealthy";
}

/**
 * Returns a container of the new version that has ended, was restarted or fails its health check; undefined if there
 * is none. A container that no longer exists is ignored: the user or a change of replicas has removed it.
 */
export function findFailedContainer(
  window: RolloutWindow | null,
  desired: DesiredApp,
  { containers, health }: Pick<WindowObservation, "containers" | "health">,
): FailedContainer | undefined {
  if (window?.outcome !== "open") return undefined;
  const isSurplus = (container: ObservedContainer) =>
    window.version === desired.hash && getReplicaIndex(container) >= desired.containers.length;
  for (const { id, startedAt } of window.starts) {
    const container = containers.find((item) => item.id === id);
    if (!container || isSurplus(container) || container.state === "removing") continue;
    if (container.state === "exited" || container.state === "dead")
      return { container, failure: "ended" };
    if (container.startedAt !== startedAt) return { container, failure: "restarted" };
    if (health.get(id)?.healthy === false) return { container, failure: "unhealthy" };
  }
  return undefined;
}
