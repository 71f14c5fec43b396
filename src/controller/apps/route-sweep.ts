import type { Store } from "../../store/store.ts";
import type { Ingress } from "../ingress/port.ts";
import * as labels from "../labels.ts";
import type { ObservedContainer, WorkloadRuntime } from "../runtime/port.ts";

/**
 * Removes addresses from every App's route if no container of the App runs there. This happens before the first
 * container is started after a start of Berth or the engine: the engine may give the container an address that
 * another App had, and the container would then get that App's requests.
 */
export async function sweepRoutes(
  {
    store,
    runtime,
    ingress,
  }: {
    readonly store: Store;
    readonly runtime: WorkloadRuntime;
    readonly ingress: Pick<Ingress, "mode" | "table">;
  },
  signal: AbortSignal,
): Promise<void> {
  if (ingress.mode === "off") return;
  const containers = await runtime.listContainers({ instance: store.instanceId }, signal);
  for (const { metadata } of store.list("App")) {
    const own = containers.filter((container) => container.labels[labels.APP] === metadata.name);
    const reached = new Set(own.flatMap(listAddresses));
    await ingress.table.retainTargets(metadata.name, reached);
  }
}

/** Lists every host:port at which a container may accept requests now. */
export function listAddresses(container: ObservedContainer): string[] {
  const port = container.labels[labels.PORT];
  if (container.state !== "running" || port === undefined) return [];
  const direct = Object.values(container.networkAddresses).map((address) =>
    address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`,
  );
  return [...direct, ...container.addresses.map(({ address }) => address)];
}
