import type { AppRoute } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import type { DesiredApp } from "./desired-app.ts";
import { isUp } from "./plan/observed-containers.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";
import { startedAtMs } from "./plan-executor.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { listAddresses } from "./route-sweep.ts";

/** The grace of containers whose App's spec cannot be resolved; Docker's own default. */
const UNKNOWN_GRACE_MS = 10_000;

export interface AppObservation {
  readonly containers: readonly ObservedContainer[];
  readonly health: Map<string, ContainerHealth>;
  readonly route: AppRoute | null;
}

/**
 * Returns the containers of an App, their health and its route, and probes the running ones from now on. Removes
 * from the route the addresses that none of its containers has any more: the engine may give them to another App.
 */
export async function observeApp(
  context: ReconcilerContext,
  name: string,
  desired: DesiredApp | null,
  mask: SecretMask,
  signal: AbortSignal,
): Promise<AppObservation> {
  const { health: monitor, ingress } = context;
  const containers = await listAppContainers(context, name, mask, signal);
  context.onObserved(name, containers);
  const route = await ingress.table.retainTargets(name, new Set(containers.flatMap(listAddresses)));
  if (desired) {
    const { healthCheck, rollout } = desired.app;
    const running = containers
      .filter((container) => container.state === "running")
      .map((container) => ({ id: container.id, startedAtMs: startedAtMs(container) }));
    monitor.watch(name, running, healthCheck, rollout.progressDeadlineMs);
  }
  return { containers, health: readHealth(context, containers, mask), route };
}

/** Returns the same as `observeApp` and changes nothing. */
export async function previewObservation(
  context: ReconcilerContext,
  name: string,
  mask: SecretMask,
  signal: AbortSignal,
): Promise<AppObservation> {
  const containers = await listAppContainers(context, name, mask, signal);
  const reached = new Set(containers.flatMap(listAddresses));
  const stored = await context.ingress.table.read(name);
  const route = stored && {
    ...stored,
    targets: stored.targets.filter((target) => reached.has(target)),
  };
  return { containers, health: readHealth(context, containers, mask), route };
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

/** Stops an App whose spec cannot be resolved, but says `running: false`. */
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
