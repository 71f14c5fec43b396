import type { ReconcileState } from "../../resources/app-status.ts";
import type { AppRoute } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { isCompleted } from "./one-shot.ts";
import { classifyContainers, getSpecHash } from "./plan/observed-containers.ts";
import { isRouted, isVersionReady } from "./plan/plan-route.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";
import { isObserved } from "./rollout-window.ts";

/** The part of an observation that decides if an App is Ready. */
export interface ReadinessObservation {
  readonly containers: readonly ObservedContainer[];
  readonly health: ReadonlyMap<string, ContainerHealth>;
  readonly route: AppRoute | null;
  readonly memory: Pick<ReconcileState, "window" | "completed">;
}

/**
 * True if the rollout is complete: every replica of the desired version is healthy, only these replicas get the App's
 * requests, and the observation window after the switch has passed. The only other containers are those that are
 * finishing their last requests.
 */
export function isComplete(desired: DesiredApp, observation: ReadinessObservation): boolean {
  const { surplus, old } = classifyContainers(desired, observation.containers);
  if (desired.app.oneShot) return isCompleted(desired, observation.memory) && old.length === 0;
  return (
    isVersionReady(desired, observation.containers, observation.health) &&
    isRouted(desired, observation) &&
    !isObserved(observation.memory, desired.hash) &&
    surplus.length === 0 &&
    (old.length === 0 || isDraining(desired, observation))
  );
}

/**
 * True while containers of older versions are finishing the requests that they had when the desired version took
 * over.
 */
export function isDraining(
  desired: DesiredApp,
  { containers, route }: Pick<ReadinessObservation, "containers" | "route">,
): boolean {
  return (
    desired.strategy.type === "rolling" &&
    route?.version === desired.hash &&
    containers.some((container) => getSpecHash(container) !== desired.hash)
  );
}

/**
 * Returns the version that receives the App's requests; null if there is none. Without a route, it is the version that
 * was last Ready.
 */
export function servingVersion(route: AppRoute | null, { attempt }: ReconcileState): string | null {
  if (route && route.targets.length > 0) return route.version;
  return attempt !== null && attempt.readySince !== null ? attempt.hash : null;
}
