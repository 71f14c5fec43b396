import type { AppRoute } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import type { DesiredApp } from "./desired-app.ts";
import { isUp } from "./plan/observed-containers.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";
import { startedAtMs } from "./plan-executor.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { listAddresses } from "./route-sweep.ts";

/** The grace of containers whose App's spec cannot be worked out; Docker's own default. */
const UNKNOWN_GRACE_MS = 10_000;

export interface AppObservation {
  readonly containers: readonly ObservedContainer[];
  readonly health: Map<string, ContainerHealth>;
  readonly route: AppRoute | null;
}

/**
 * What there is of an App now: its containers, their health, and where its requests go. Whatever becomes
 * of the run, addresses that none of its containers has any more leave its route: they may be anybody's next.
 */
export async function observeApp(
  context: ReconcilerContext,
  name: string,
  desired: DesiredApp | null,
  mask: SecretMask,
  signal: AbortSignal,
): Promise<AppObservation> {
  const { runtime, store, health: monitor, ingress } = context;
  const listed = await runtime.listContainers({ instance: store.instanceId, app: name }, signal);
  context.onObserved(name, listed);
  const containers = listed.map((container) =>
    container.error ? { ...container, error: mask(container.error) } : container,
  );
  const route = await ingress.table.retainTargets(name, new Set(containers.flatMap(listAddresses)));
  if (desired) {
    const { healthCheck, rollout } = desired.app;
    const running = containers
      .filter((container) => container.state === "running")
      .map((container) => ({ id: container.id, startedAtMs: startedAtMs(container) }));
    monitor.watch(name, running, healthCheck, rollout.progressDeadlineMs);
  }
  const health = new Map<string, ContainerHealth>();
  for (const { id } of containers) {
    const known = monitor.health(id);
    if (known) health.set(id, { ...known, message: mask(known.message) });
  }
  return { containers, health, route };
}

/** Stops an App whose spec cannot be worked out, but says that it is not to run. */
export async function stopAllContainers(
  { withReplacementWorker: aside, runtime, ingress }: ReconcilerContext,
  name: string,
  { containers, route }: Pick<AppObservation, "containers" | "route">,
  signal: AbortSignal,
): Promise<void> {
  if (route && route.targets.length > 0)
    await ingress.table.write(name, { version: route.version, targets: [] });
  for (const { id } of containers.filter(isUp))
    await aside(() => runtime.stopContainer(id, UNKNOWN_GRACE_MS, signal));
}
