import type { Route } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { Mask } from "../secrets/mask.ts";
import type { ReconcilerContext } from "./context.ts";
import type { DesiredApp } from "./desired.ts";
import { startedAtMs } from "./executor.ts";
import type { ContainerHealth } from "./plan/model.ts";
import { isUp } from "./plan/observed.ts";
import { addressesOf } from "./route-sweep.ts";

/** The grace of containers whose App's spec cannot be worked out; Docker's own default. */
const UNKNOWN_GRACE_MS = 10_000;

export interface Look {
  readonly containers: readonly ObservedContainer[];
  readonly health: Map<string, ContainerHealth>;
  readonly route: Route | null;
}

/**
 * What there is of an App now: its containers, their health, and where its requests go. Whatever becomes
 * of the run, addresses that none of its containers has any more leave its route: they may be anybody's next.
 */
export async function lookAtApp(
  context: ReconcilerContext,
  name: string,
  desired: DesiredApp | null,
  mask: Mask,
  signal: AbortSignal,
): Promise<Look> {
  const { runtime, store, health: monitor, ingress } = context;
  const listed = await runtime.listContainers({ instance: store.instanceId, app: name }, signal);
  context.onObserved(name, listed);
  const containers = listed.map((container) =>
    container.error ? { ...container, error: mask(container.error) } : container,
  );
  const route = await ingress.table.retain(name, new Set(containers.flatMap(addressesOf)));
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
export async function stopAll(
  { aside, runtime, ingress }: ReconcilerContext,
  name: string,
  { containers, route }: Pick<Look, "containers" | "route">,
  signal: AbortSignal,
): Promise<void> {
  if (route && route.targets.length > 0)
    await ingress.table.write(name, { version: route.version, targets: [] });
  for (const { id } of containers.filter(isUp))
    await aside(() => runtime.stopContainer(id, UNKNOWN_GRACE_MS, signal));
}
