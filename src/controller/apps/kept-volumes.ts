import type { Resource } from "../../resources/resource.ts";
import { volumeName } from "../engine-names.ts";
import * as labels from "../labels.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import type { PlannedRun } from "./run-state.ts";

/**
 * If an App was created at most this long before another one is deleted, it may be the deleted App under a new name.
 */
const RENAME_MS = 60_000;

type Context = Pick<ReconcilerContext, "store" | "runtime">;

/**
 * Offers a new App the kept volumes of deleted Apps that have the same volume names, because the new App may be a
 * renamed one. Berth does not use the volumes without consent, because the data may belong to something else.
 */
export async function offerKeptVolumes(
  context: Context,
  { desired, memory, plan, resource }: PlannedRun,
  signal: AbortSignal,
): Promise<void> {
  const isFirst = memory.served.length === 0 && desired.volumes.length > 0;
  if (!isFirst || !plan.operations.some(({ type }) => type === "createContainer")) return;
  const { store, runtime } = context;
  const volumes = await runtime.listVolumes({ instance: store.instanceId }, signal);
  for (const { labels: found } of volumes) {
    const former = found[labels.APP] ?? desired.name;
    const volume = found[labels.VOLUME] ?? "";
    const app = store.get("App", former);
    if (former === desired.name || (app && app.metadata.deletionTimestamp === null)) continue;
    if (hasVolume(resource, volume)) recordOffer(context, desired.name, former, volume);
  }
}

/**
 * Offers the volumes of an App that is being deleted to Apps that were created shortly before the deletion: the deleted
 * App may have been renamed to one of them in a spec file.
 */
export function offerVolumesOfDeleted({ store }: Context, deleted: Resource<"App">): void {
  const deletedMs = Date.parse(deleted.metadata.deletionTimestamp ?? "");
  for (const app of store.list("App")) {
    const { name, creationTimestamp, deletionTimestamp } = app.metadata;
    const createdMs = Date.parse(creationTimestamp);
    if (deletionTimestamp !== null || !(createdMs >= deletedMs - RENAME_MS)) continue;
    for (const volume of deleted.spec.volumes ?? [])
      if ("name" in volume && volume.shared !== true && hasVolume(app, volume.name))
        recordOffer({ store }, name, deleted.metadata.name, volume.name);
  }
}

function hasVolume({ spec }: Resource<"App">, name: string): boolean {
  return (spec.volumes ?? []).some(
    (volume) => "name" in volume && volume.shared !== true && volume.name === name,
  );
}

function recordOffer(
  { store }: Pick<Context, "store">,
  name: string,
  former: string,
  volume: string,
): void {
  const [from, to] = [former, name].map((app) => volumeName(store.instanceId, app, volume));
  const message = `the deleted app "${former}" has left a volume "${volume}": to use its data here, run berth stop ${name}, then docker run --rm -v ${from}:/from:ro -v ${to}:/to busybox cp -a /from/. /to/, then berth start ${name}`;
  store.events.record({ kind: "App", name, type: "Normal", reason: "VolumeKept", message });
}
