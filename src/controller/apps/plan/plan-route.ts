import * as labels from "../../labels.ts";
import type { ObservedContainer } from "../../runtime/port.ts";
import type { DesiredApp } from "../desired-app.ts";
import { classifyContainers, getSpecHash, isHealthy } from "./observed-containers.ts";
import type { PlanDraft } from "./plan-draft.ts";
import type { ContainerHealth, ObservedApp, Operation } from "./plan-types.ts";

/**
 * Where requests go. The wanted version gets them when each of its replicas is healthy; until then
 * the version that has them keeps them, as long as a container of it runs.
 */

/**
 * A program that answers its first probe and ends at the next line of its start-up has not proven much:
 * it takes nothing over from a version that works before it has been up this long. A short wait, since most
 * programs take as long to answer at all.
 */
const MIN_UP_MS = 250;

/** host:port at which the ingress reaches a container, of whatever version; undefined while it has none. */
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

/** True while requests of the App go to this container. */
export function isServing(
  desired: DesiredApp,
  { route }: Pick<ObservedApp, "route">,
  container: ObservedContainer,
): boolean {
  const target = getTarget(desired, container);
  return target !== undefined && route !== null && route.targets.includes(target);
}

/** True when every replica of the wanted version is there, healthy and reachable. */
export function isVersionReady(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  health: ReadonlyMap<string, ContainerHealth>,
): boolean {
  const { kept } = classifyContainers(desired, containers);
  return (
    kept.size === desired.containers.length &&
    [...kept.values()].every(
      (container) =>
        isHealthy(container, health) &&
        // Off its network nobody reaches it, whatever its last probe said.
        container.networks.includes(desired.network),
    )
  );
}

/** True when the App's requests go to the wanted version, to all of it, and to nothing else. */
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

/** Adds the switch that is due, if any. Containers that `steps` stop get no more requests first. */
export function planRoute(draft: PlanDraft, steps: readonly Operation[]): void {
  const { desired, observed } = draft;
  if (!desired.isRouted) {
    planRouteRemoval(draft, "the app takes no requests");
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
    // Nothing has to be said twice; but a version has to be known as serving to count the drain from.
    if (targets.length === 0 || version === route?.version) return;
  }
  const cause =
    targets.length === 0
      ? "no container can take requests"
      : version === route?.version
        ? "the containers that can take requests have changed"
        : "every replica of the version is healthy";
  draft.add({ type: "switchRoute", name: desired.name, version, targets, cause });
}

/** Nothing of the App is to take requests. */
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
  const { containers, health, route } = observed;
  const { kept, old } = classifyContainers(desired, containers);
  const own = [...kept.values()].filter(({ id }) => !stopping.has(id));
  const taken = { version: desired.hash, targets: listTargets(desired, own) };
  const isReady =
    isVersionReady(desired, containers, health) &&
    taken.targets.length === desired.containers.length;
  // How the wanted version is to be probed says nothing of an older one: what has requests keeps them.
  const before = old.filter((container) => getSpecHash(container) === route?.version);
  const serving = listTargets(
    desired,
    before
      .filter(({ id }) => !stopping.has(id))
      .filter((item) => isServing(desired, observed, item) || isHealthy(item, health)),
  );
  const provenAtMs = Math.max(0, ...own.map(({ id }) => getUpSince(observed, id))) + MIN_UP_MS;
  if (isReady && (serving.length === 0 || observed.nowMs >= provenAtMs)) return taken;
  if (isReady) draft.requeueAt(provenAtMs);
  // A part of the wanted version takes nothing over from one that is there, or is about to be again.
  const isComingUp = before.some((item) => starting.has(item.id) || item.state === "running");
  const isReturning = isComingUp || (before.length > 0 && draft.restartAtMs !== null);
  if (route && (serving.length > 0 || isReturning))
    return { version: route.version, targets: serving };
  const targets = listTargets(desired, selectUsable(desired, observed, own));
  const version = targets.length > 0 ? desired.hash : (route?.version ?? desired.hash);
  return { version, targets };
}

/** Since when a container has been seen up; one that was never seen is seen now. */
function getUpSince({ firstSeen: seen, nowMs }: ObservedApp, id: string): number {
  return seen.upSince.get(id) ?? nowMs;
}

/**
 * The containers of a version that has no older one beside it: those that answer, and those that took requests
 * until now and have not been probed yet, as after a restart of Berth. Where none answers, those that took
 * requests keep them: a slow answer is better than none.
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
