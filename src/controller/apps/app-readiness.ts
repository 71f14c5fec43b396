import type { ReconcileState } from "../../resources/app-status.ts";
import type { AppRoute } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { classifyContainers, getSpecHash } from "./plan/observed-containers.ts";
import { isRouted, isVersionReady } from "./plan/plan-route.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";

/** What there is of an App, as far as its readiness goes. */
export interface ReadinessObservation {
  readonly containers: readonly ObservedContainer[];
  readonly health: ReadonlyMap<string, ContainerHealth>;
  readonly route: AppRoute | null;
}

/**
 * True when every replica of the wanted version is healthy, has the App's requests to itself, and
 * nothing else is left but what ends its last requests.
 */
export function isComplete(desired: DesiredApp, observation: ReadinessObservation): boolean {
  const { surplus, old } = classifyContainers(desired, observation.containers);
  return (
    isVersionReady(desired, observation.containers, observation.health) &&
    isRouted(desired, observation) &&
    surplus.length === 0 &&
    (old.length === 0 || isDraining(desired, observation))
  );
}

/** True while containers of older versions end the requests that they had when the wanted one took over. */
export function isDraining(
  desired: DesiredApp,
  { containers, route }: ReadinessObservation,
): boolean {
  return (
    desired.strategy.type === "rolling" &&
    route?.version === desired.hash &&
    containers.some((container) => getSpecHash(container) !== desired.hash)
  );
}

/** The version that serves: the one that has the requests, or, without an ingress, the one that was last Ready. */
export function servingVersion(route: AppRoute | null, { attempt }: ReconcileState): string | null {
  if (route && route.targets.length > 0) return route.version;
  return attempt !== null && attempt.readySince !== null ? attempt.hash : null;
}
