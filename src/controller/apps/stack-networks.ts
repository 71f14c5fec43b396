import { getStack } from "../../resources/stack.ts";
import type { Store } from "../../store/store.ts";
import { STACK } from "../labels.ts";
import type { ContainerRuntime } from "../runtime/port.ts";

/**
 * Removes the networks of stacks to which no App belongs any more. Apps that are being deleted do not count. A network
 * that a container still uses is kept until the next call.
 */
export async function removeUnusedStackNetworks(
  {
    store,
    runtime,
  }: {
    readonly store: Pick<Store, "instanceId" | "list">;
    readonly runtime: Pick<ContainerRuntime, "listStackNetworks" | "removeNetwork">;
  },
  signal: AbortSignal,
): Promise<void> {
  const found = await runtime.listStackNetworks({ instance: store.instanceId }, signal);
  if (found.length === 0) return;
  const used = new Set(
    store
      .list("App")
      .filter(({ metadata }) => metadata.deletionTimestamp === null)
      .map(({ metadata }) => getStack(metadata)),
  );
  for (const { name, labels } of found)
    if (!used.has(labels[STACK])) await runtime.removeNetwork(name, signal);
}
