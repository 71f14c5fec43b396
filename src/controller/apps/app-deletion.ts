import { isDeletedWithData } from "../../resources/app-data.ts";
import { resolveAppDefaults } from "../../resources/app-defaults.ts";
import { APP_FINALIZER, type Resource } from "../../resources/resource.ts";
import { getStack } from "../../resources/stack.ts";
import { networkName } from "../engine-names.ts";
import { removeFiles } from "./app-files.ts";
import { offerVolumesOfDeleted } from "./kept-volumes.ts";
import { planRemoval } from "./plan/plan-app.ts";
import { groupConcurrentStops } from "./plan-executor.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { removeAppData } from "./remove-app-data.ts";
import { removeUnusedStackNetworks } from "./stack-networks.ts";

/** The time between SIGTERM and SIGKILL for a container without an App; Docker's own default. */
const ORPHAN_GRACE_MS = 10_000;

/**
 * Runs the finalizer. It removes the containers, the images that only this App used and, if the user asked for it,
 * the volumes and folders. Every step can be repeated. The last step removes the finalizer, and with it the resource.
 */
export async function finalizeApp(
  context: ReconcilerContext,
  resource: Resource<"App">,
  signal: AbortSignal,
): Promise<void> {
  const { store, runtime } = context;
  const { name, uid } = resource.metadata;
  if (resource.status && resource.status.phase !== "deleting") {
    store.setStatus("App", name, uid, { ...resource.status, phase: "deleting" });
  }
  await context.ingress.table.remove(name);
  await context.builds.forget(name);
  await removeContainers(
    context,
    name,
    resolveAppDefaults(resource.spec).stopGraceMs,
    "the app was deleted",
    signal,
  );
  for (const image of store.ownedImages.list(name)) {
    if (!store.ownedImages.isUsedByOthers(image, name)) {
      await runtime.removeImage(image, signal);
      context.images.markAbsent(image);
    }
    store.ownedImages.remove(image, name);
  }
  if (isDeletedWithData(resource)) await removeAppData(context, resource, signal);
  else offerVolumesOfDeleted(context, resource);
  const isLast = store.list("App").every((app) => app.metadata.deletionTimestamp !== null);
  if (isLast || getStack(resource.metadata) !== undefined) {
    await removeUnusedStackNetworks(context, signal);
    context.executor.forgetEnsured();
  }
  if (isLast) {
    // The network of the instance is removed with the last App, even if several Apps are deleted at once, so that Berth
    // leaves nothing on the engine.
    await runtime.removeNetwork(networkName(store.instanceId), signal);
  }
  removeFiles(context.dataDir, name);
  await context.archive.drop(name);
  store.ports.release(name);
  store.addresses.release(name);
  store.events.record({
    kind: "App",
    name,
    type: "Normal",
    reason: "Deleted",
    message: "its containers were removed",
  });
  store.removeFinalizer("App", name, APP_FINALIZER);
}

/**
 * Removes containers of this instance whose App is not in the store. Such containers exist after a crash, or after a
 * backup was restored.
 */
export async function removeOrphanedContainers(
  context: ReconcilerContext,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const removed = await removeContainers(context, name, ORPHAN_GRACE_MS, "no such app", signal);
  removeFiles(context.dataDir, name);
  if (removed > 0) {
    // The logs are deleted, because a later App of the same name must not get them.
    await context.archive.drop(name);
    context.store.events.record({
      kind: "App",
      name,
      type: "Normal",
      reason: "OrphanRemoved",
      message: `removed ${removed} containers of an app that does not exist`,
    });
  }
}

async function removeContainers(
  context: ReconcilerContext,
  name: string,
  graceMs: number,
  cause: string,
  signal: AbortSignal,
): Promise<number> {
  const { runtime, store, executor, health, observedApps } = context;
  health.forget(name);
  observedApps.delete(name);
  context.inputsOfFailedSources.delete(name);
  context.firstSeenTimes.forget(name);
  const containers = await runtime.listContainers(
    { instance: store.instanceId, app: name },
    signal,
  );
  for (const operations of groupConcurrentStops(planRemoval(containers, graceMs, cause)))
    await executor.executeAll(operations, name, new Map(), signal);
  return containers.length;
}
