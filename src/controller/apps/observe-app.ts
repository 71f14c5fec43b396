import type { ReconcileState } from "../../resources/app-status.ts";
import type { AppRoute } from "../ingress/port.ts";
import { PORT } from "../labels.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import type { DesiredApp } from "./desired-app.ts";
import { classifyContainers, getSpecHash, isUp } from "./plan/observed-containers.ts";
import { isKeptBack, isServing, listPreviousTargets } from "./plan/plan-route.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";
import { startedAtMs } from "./plan-executor.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { isObserved } from "./rollout-window.ts";
import { listAddresses } from "./route-sweep.ts";

/**
 * The time between SIGTERM and SIGKILL for containers of an App whose spec cannot be resolved; Docker's own default.
 */
const UNKNOWN_GRACE_MS = 10_000;

export interface AppObservation {
  readonly containers: readonly ObservedContainer[];
  readonly health: Map<string, ContainerHealth>;
  readonly route: AppRoute | null;
  /**
   * Ids of containers that are being stopped. A stop that ends during the observation is included, because the list of
   * containers may still show its container as running.
   */
  readonly stopping: ReadonlySet<string>;
}

interface ObservedVersion extends AppObservation {
  readonly desired: DesiredApp;
  readonly memory: ReconcileState;
}

/**
 * Returns the containers of an App, their health and its route, and starts to probe the running containers. Removes
 * addresses from the route that belong to none of the App's containers any more, because the engine may give these
 * addresses to another App. Lists the containers, unless the caller knows them.
 */
export async function observeApp(
  context: ReconcilerContext,
  name: string,
  desired: DesiredApp | null,
  { mask, memory }: { readonly mask: SecretMask; readonly memory: ReconcileState },
  known: Pick<AppObservation, "containers" | "stopping"> | null,
  signal: AbortSignal,
): Promise<AppObservation> {
  const { health: monitor, ingress, stops } = context;
  // The ids of containers that Berth is stopping are read before the containers are listed. A container that ends in
  // between is then listed as running, but Berth does not stop it a second time.
  const stopping = new Set([...(known?.stopping ?? []), ...stops.stoppingIds]);
  const containers = known?.containers ?? (await listAppContainers(context, name, mask, signal));
  if (!known) context.onObserved(name, containers);
  const reachable = new Set(containers.flatMap(listAddresses));
  await leaveDeadVersion(context, desired, { memory, containers }, reachable);
  const route = await ingress.table.retainTargets(name, reachable);
  if (desired) {
    const { healthCheck, rollout } = desired.app;
    const isRollingOut =
      (desired.isRouted && route?.version !== desired.hash) || isObserved(memory, desired.hash);
    const running = containers
      .filter((container) => container.state === "running")
      .map((container) => ({
        id: container.id,
        startedAtMs: startedAtMs(container),
        isRollingOut: isRollingOut && getSpecHash(container) === desired.hash,
      }));
    monitor.watch(name, running, healthCheck, rollout.progressDeadlineMs);
  }
  return { containers, health: readHealth(context, containers, mask), route, stopping };
}

/**
 * Routes requests back to the previous version if no container of the new version runs any more during its observation
 * window. This happens before the addresses of ended containers are removed, so that the App always has a target.
 */
async function leaveDeadVersion(
  { ingress }: ReconcilerContext,
  desired: DesiredApp | null,
  { memory, containers }: Pick<ObservedVersion, "memory" | "containers">,
  reachable: ReadonlySet<string>,
): Promise<void> {
  const { window } = memory;
  if (!desired?.isRouted || desired.app.suspend || window?.since == null) return;
  const route = await ingress.table.read(desired.name);
  if (!route || route.targets.some((target) => reachable.has(target))) return;
  const targets = listPreviousTargets(desired, { containers, route, window });
  if (targets.length > 0)
    await ingress.table.write(desired.name, { version: window.previous, targets });
}

/** Returns what `observeApp` would return, and changes nothing. */
export async function previewObservation(
  context: ReconcilerContext,
  name: string,
  mask: SecretMask,
  signal: AbortSignal,
): Promise<AppObservation> {
  const stopping = new Set(context.stops.stoppingIds);
  const containers = await listAppContainers(context, name, mask, signal);
  const reached = new Set(containers.flatMap(listAddresses));
  const stored = await context.ingress.table.read(name);
  const route = stored && {
    ...stored,
    targets: stored.targets.filter((target) => reached.has(target)),
  };
  return { containers, health: readHealth(context, containers, mask), route, stopping };
}

async function listAppContainers(
  { runtime, store }: ReconcilerContext,
  app: string,
  mask: SecretMask,
  signal: AbortSignal,
): Promise<readonly ObservedContainer[]> {
  const containers = await runtime.listContainers({ instance: store.instanceId, app }, signal);
  return containers.map((container) =>
    container.error ? { ...container, error: mask(container.error) } : container,
  );
}

function readHealth(
  { health: monitor }: ReconcilerContext,
  containers: readonly ObservedContainer[],
  mask: SecretMask,
): Map<string, ContainerHealth> {
  const health = new Map<string, ContainerHealth>();
  for (const { id } of containers) {
    const known = monitor.health(id);
    if (known) health.set(id, { ...known, message: mask(known.message) });
  }
  return health;
}

/**
 * Counts the open connections of containers that get no new requests and only finish their current ones. The result, by
 * container id, omits a container whose connections are unknown.
 */
export async function observeConnections(
  { runtime }: Pick<ReconcilerContext, "runtime">,
  { desired, containers, route, memory }: ObservedVersion,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  if (desired.strategy.type !== "rolling") return new Map();
  const { surplus, old } = classifyContainers(desired, containers);
  const draining = [...surplus, ...old]
    .filter((item) => item.state === "running" && !isServing(desired, { route }, item))
    .filter((item) => getSpecHash(item) !== route?.version || route.version === desired.hash)
    .filter((item) => !isKeptBack(memory, item));
  const counted = await Promise.all(
    draining.map(async ({ id, labels }) => {
      const port = Number(labels[PORT] ?? Number.NaN);
      const count = Number.isNaN(port)
        ? undefined
        : await runtime.countConnections(id, port, signal);
      return [id, count] as const;
    }),
  );
  return new Map(counted.flatMap(([id, count]) => (count === undefined ? [] : [[id, count]])));
}

/** Stops the containers of an App whose spec sets `running: false` but cannot be resolved. */
export async function stopAllContainers(
  { withReplacementWorker, runtime, ingress }: ReconcilerContext,
  name: string,
  { containers, route }: Pick<AppObservation, "containers" | "route">,
  signal: AbortSignal,
): Promise<void> {
  if (route && route.targets.length > 0)
    await ingress.table.write(name, { version: route.version, targets: [] });
  for (const { id } of containers.filter(isUp))
    await withReplacementWorker(() => runtime.stopContainer(id, UNKNOWN_GRACE_MS, signal));
}
