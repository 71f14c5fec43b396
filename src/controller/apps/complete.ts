import type { ReconcilerMemory } from "../../resources/status.ts";
import type { Route } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired.ts";
import type { ContainerHealth } from "./plan/model.ts";
import { hashOf, sortContainers } from "./plan/observed.ts";
import { isRouted, isVersionReady } from "./plan/route.ts";

/** What there is of an App, as far as its readiness goes. */
export interface Seen {
  readonly containers: readonly ObservedContainer[];
  readonly health: ReadonlyMap<string, ContainerHealth>;
  readonly route: Route | null;
}

/**
 * True when every replica of the wanted version is healthy, has the App's requests to itself, and
 * nothing else is left but what ends its last requests.
 */
export function isComplete(desired: DesiredApp, seen: Seen): boolean {
  const { surplus, old } = sortContainers(desired, seen.containers);
  return (
    isVersionReady(desired, seen.containers, seen.health) &&
    isRouted(desired, seen) &&
    surplus.length === 0 &&
    (old.length === 0 || isDraining(desired, seen))
  );
}

/** True while containers of older versions end the requests that they had when the wanted one took over. */
export function isDraining(desired: DesiredApp, { containers, route }: Seen): boolean {
  return (
    desired.strategy.type === "rolling" &&
    route?.version === desired.hash &&
    containers.some((container) => hashOf(container) !== desired.hash)
  );
}

/** The version that serves: the one that has the requests, or, without an ingress, the one that was last Ready. */
export function servingVersion(route: Route | null, { attempt }: ReconcilerMemory): string | null {
  if (route && route.targets.length > 0) return route.version;
  return attempt !== null && attempt.readySince !== null ? attempt.hash : null;
}
