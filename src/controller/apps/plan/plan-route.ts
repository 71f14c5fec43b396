import * as labels from "../../labels.ts";
import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import {
  classifyContainers,
  getSpecHash,
  isHealthy,
  listForeignContainers,
} from "./observed-containers.ts";
import type { PlanDraft } from "./plan-draft.ts";
import type { ContainerHealth, ObservedApp, Operation } from "./plan-types.ts";

/**
 * Plans the route of an App's requests. The desired version receives the requests when each of its replicas is healthy.
 * Until then, the current version receives them, as long as one of its containers runs.
 */

/**
 * Returns the host:port at which the ingress reaches a container of any version of the App; undefined if the container
 * has no such address now.
 */
export function getTarget(desired: DesiredApp, container: ObservedContainer): string | undefined {
  const port = container.labels[labels.PORT];
  if (port === undefined || container.state !== "running") return undefined;
  if (desired.exposure === "network") {
    const address = container.networkAddresses[desired.network];
    if (address === undefined) return undefined;
    return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
  }
  return container.addresses.find((item) => item.containerPort === Number(port))?.address;
}

/** True if requests of the App are routed to this container. */
export function isServing(
  desired: DesiredApp,
  { route }: Pick<ObservedApp, "route">,
  container: ObservedContainer,
): boolean {
  const target = getTarget(desired, container);
  return target !== undefined && route !== null && route.targets.includes(target);
}

/** True if the container may receive requests again: the version that replaced it is in its observation window. */
export function isKeptBack(
  { window }: Pick<ObservedApp, "window">,
  container: ObservedContainer,
): boolean {
  if (!window || window.outcome === "passed") return false;
  return getSpecHash(container) === window.previous;
}

/** True if every replica of the desired version exists, matches the spec, and is healthy and reachable. */
export function isVersionReady(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  health: ReadonlyMap<string, ContainerHealth>,
): boolean {
  const { kept } = classifyContainers(desired, containers);
  return (
    kept.size === desired.containers.length &&
    listForeignContainers(desired, containers).length === 0 &&
    [...kept.values()].every(
      (container) =>
        isHealthy(container, health) &&
        // A container without its network is unreachable, even if its last probe succeeded.
        container.networks.includes(desired.network),
    )
  );
}

/** True if the App's requests are routed to all containers of the desired version, and to no other container. */
export function isRouted(desired: DesiredApp, observed: Pick<ObservedApp, "containers" | "route">) {
  if (!desired.isRouted) return true;
  const { kept } = classifyContainers(desired, observed.containers);
  const targets = listTargets(desired, [...kept.values()]);
  return (
    observed.route?.version === desired.hash &&
    targets.length === desired.containers.length &&
    haveSameItems(targets, observed.route.targets)
  );
}

/**
 * Plans the switch of the App's requests to the desired version if the switch is due. The plan executes `steps` before
 * the switch, so the containers that `steps` stops get no requests.
 */
export function planRoute(draft: PlanDraft, steps: readonly Operation[]): void {
  const { desired, observed } = draft;
  if (!desired.isRouted) {
    planRouteRemoval(draft, "the app accepts no requests");
    return;
  }
  const stopping = new Set([
    ...observed.stopping,
    ...steps.flatMap((step) =>
      step.type === "stopContainer" || step.type === "removeContainer" ? [step.id] : [],
    ),
  ]);
  const starting = new Set(
    steps.flatMap((step) => (step.type === "startContainer" && step.id ? [step.id] : [])),
  );
  const { version, targets } = chooseRoute(draft, stopping, starting);
  const { route } = observed;
  if (haveSameItems(targets, route?.targets ?? [])) {
    // The targets do not change, but the route has to name the version that now serves, because the drain time of the
    // replaced version counts from this change.
    if (targets.length === 0 || version === route?.version) return;
  }
  const cause =
    targets.length === 0
      ? "no container can accept requests"
      : version === route?.version
        ? "the containers that can accept requests have changed"
        : "every replica of the version is healthy";
  draft.add({ type: "switchRoute", name: desired.name, version, targets, cause });
}

export function planRouteRemoval(draft: PlanDraft, cause: string): void {
  const { desired, observed } = draft;
  const { route } = observed;
  if (!route || route.targets.length === 0) return;
  draft.add({
    type: "switchRoute",
    name: desired.name,
    version: route.version,
    targets: [],
    cause,
  });
}

function chooseRoute(
  draft: PlanDraft,
  stopping: ReadonlySet<string>,
  starting: ReadonlySet<string>,
): { readonly version: string; readonly targets: readonly string[] } {
  const { desired, observed } = draft;
  const { containers, health, route, window } = observed;
  const back = listPreviousTargets(desired, observed, stopping);
  if (window?.outcome === "failed" && back.length > 0)
    return { version: window.previous, targets: back };
  const { kept, old } = classifyContainers(desired, containers);
  const own = [...kept.values()].filter(({ id }) => !stopping.has(id));
  const taken = { version: desired.hash, targets: listTargets(desired, own) };
  const isReady =
    isVersionReady(desired, containers, health) &&
    taken.targets.length === desired.containers.length;
  // The desired health check does not apply to an older version. Its running containers therefore keep their requests
  // without a health check.
  const before = old.filter((container) => getSpecHash(container) === route?.version);
  const serving = listTargets(
    desired,
    before
      .filter(({ id }) => !stopping.has(id))
      .filter((item) => isServing(desired, observed, item) || isHealthy(item, health)),
  );
  const healthySinceMs = Math.max(0, ...own.map(({ id }) => getHealthySince(observed, id)));
  const dueAtMs = healthySinceMs + desired.app.rollout.minReadyMs;
  // A stalled version that is healthy has failed earlier, during its observation, so it gets no requests.
  const isDue = !observed.isStalled && observed.nowMs >= dueAtMs;
  if (isReady && (serving.length === 0 || isDue)) return taken;
  if (isReady && !observed.isStalled) draft.requeueAt(dueAtMs);
  // Until the desired version is ready, the requests stay with the previous version while that version runs or is being
  // restarted.
  const isComingUp = before.some((item) => starting.has(item.id) || item.state === "running");
  const isReturning = isComingUp || (before.length > 0 && draft.restartAtMs !== null);
  if (route && (serving.length > 0 || isReturning))
    return { version: route.version, targets: serving };
  const targets = listTargets(desired, selectUsable(desired, observed, own));
  const version = targets.length > 0 ? desired.hash : (route?.version ?? desired.hash);
  return { version, targets };
}

/**
 * Lists the targets of the previous version, which is kept during the observation window of the new version. The
 * targets answered until the switch, so they need no probe.
 */
export function listPreviousTargets(
  desired: DesiredApp,
  { containers, route, window }: Pick<ObservedApp, "containers" | "route" | "window">,
  stopping: ReadonlySet<string> = new Set(),
): readonly string[] {
  if (!window || window.outcome === "passed" || route?.version !== window.version) return [];
  const previous = containers.filter(
    (container) => getSpecHash(container) === window.previous && !stopping.has(container.id),
  );
  return listTargets(desired, previous);
}

/** Returns when a container was first seen healthy. If it was never seen healthy, returns the current time. */
function getHealthySince({ firstSeen, nowMs }: ObservedApp, id: string): number {
  return firstSeen.healthySince.get(id) ?? nowMs;
}

/**
 * Selects the containers that get requests when no older version serves: healthy ones, and those that had requests
 * and have not been probed yet, for example after a restart of Berth. If there are none, all containers that had
 * requests keep them, because a slow answer is better than none.
 */
function selectUsable(
  desired: DesiredApp,
  observed: ObservedApp,
  own: readonly ObservedContainer[],
): readonly ObservedContainer[] {
  const serves = (container: ObservedContainer) => isServing(desired, observed, container);
  const healthOf = ({ id }: ObservedContainer) => observed.health.get(id)?.healthy ?? null;
  const answering = own.filter(
    (container) =>
      isHealthy(container, observed.health) || (serves(container) && healthOf(container) === null),
  );
  return answering.length > 0 ? answering : own.filter(serves);
}

function listTargets(desired: DesiredApp, containers: readonly ObservedContainer[]): string[] {
  return containers.flatMap((container) => getTarget(desired, container) ?? []).toSorted();
}

function haveSameItems(a: readonly string[], b: readonly string[]): boolean {
  const known = new Set(b);
  return a.length === b.length && a.every((item) => known.has(item));
}
