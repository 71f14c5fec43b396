import { join } from "node:path";
import { BerthError, formatErrorCode } from "../../base/errors.ts";
import { type DataPlace, isDeletedWithData, listDataPlaces } from "../../resources/app-data.ts";
import type { Resource } from "../../resources/resource.ts";
import { getStack } from "../../resources/stack.ts";
import { sharedVolumeName } from "../engine-names.ts";
import * as labels from "../labels.ts";
import { getAppFolders, getStackFolders } from "./app-folders.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

type Context = Pick<ReconcilerContext, "store" | "runtime" | "dataDir" | "deleteFolder">;

/**
 * Deletes the volumes and folders of an App whose containers are removed. A shared one is deleted with the last App
 * that uses it. Can be repeated.
 */
export async function removeAppData(
  context: Context,
  resource: Resource<"App">,
  signal: AbortSignal,
): Promise<void> {
  const { store, runtime, dataDir } = context;
  const { name } = resource.metadata;
  for (const volume of await runtime.listVolumes({ instance: store.instanceId, app: name }, signal))
    await runtime.removeVolume(volume.name, signal);
  if (dataDir !== undefined) await removeFolder(context, name, getAppFolders(dataDir, name));
  const stack = getStack(resource.metadata);
  if (stack !== undefined) await removeSharedData(context, resource, stack, signal);
}

async function removeSharedData(
  context: Context,
  resource: Resource<"App">,
  stack: string,
  signal: AbortSignal,
): Promise<void> {
  const { store, runtime, dataDir } = context;
  const { name } = resource.metadata;
  const others = store
    .list("App")
    .filter(({ metadata }) => metadata.name !== name && getStack(metadata) === stack);
  // An App that is deleted with its data too deletes what it shares after its own containers are removed.
  const remaining = others.filter((other) => !isDeletedWithData(other));
  const isUsed = (type: DataPlace["type"], place: string) =>
    remaining.some(({ spec }) => hasSharedPlace(spec, type, place));
  const isUnused = (type: DataPlace["type"], place: string) =>
    remaining.length === 0 || (hasSharedPlace(resource.spec, type, place) && !isUsed(type, place));
  for (const { name: volume, labels: own } of await runtime.listVolumes(
    { instance: store.instanceId },
    signal,
  )) {
    const place = own[labels.VOLUME] ?? "";
    if (own[labels.STACK] !== stack || !isUnused("volume", place)) continue;
    if (volume !== sharedVolumeName(store.instanceId, stack, place)) continue;
    await removeSharedVolume(context, volume, others.length > 0, signal);
  }
  if (dataDir === undefined) return;
  const folder = getStackFolders(dataDir, stack);
  const folders = listDataPlaces(resource.spec).filter(
    ({ type, shared }) => shared && type === "folder",
  );
  const unused = folders.filter((place) => isUnused("folder", place.name));
  const paths = remaining.length === 0 ? [folder] : unused.map((place) => join(folder, place.name));
  if (paths.length === 0 || (await isStackRunning(context, stack, paths, signal))) return;
  for (const path of paths) await removeFolder(context, name, path);
}

function hasSharedPlace(spec: Resource<"App">["spec"], type: DataPlace["type"], name: string) {
  return listDataPlaces(spec).some(
    (place) => place.shared && place.type === type && place.name === name,
  );
}

/**
 * Removes a shared volume. If a container still uses it and the stack has other Apps, the volume stays: an App that is
 * being deleted removes it after its own containers, and an App that remains keeps it.
 */
async function removeSharedVolume(
  { runtime }: Context,
  volume: string,
  hasOtherApps: boolean,
  signal: AbortSignal,
): Promise<void> {
  try {
    await runtime.removeVolume(volume, signal);
  } catch (error) {
    const isInUse = error instanceof BerthError && error.code === "engine_error";
    if (!hasOtherApps || !isInUse) throw error;
  }
}

/**
 * True if a container of the stack may still write to one of these paths. It could then replace a folder by a link
 * while Berth deletes the folder, so that Berth would delete files elsewhere.
 */
async function isStackRunning(
  { store, runtime }: Context,
  stack: string,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<boolean> {
  const containers = await runtime.listContainers({ instance: store.instanceId }, signal);
  return containers
    .filter((container) => container.labels[labels.STACK] === stack)
    .some(
      ({ settings }) =>
        settings === undefined ||
        settings.mounts.some(
          (mount) =>
            mount.type === "bind" &&
            paths.some((path) => mount.hostPath === path || mount.hostPath.startsWith(`${path}/`)),
        ),
    );
}

async function removeFolder(
  { store, deleteFolder }: Context,
  app: string,
  path: string,
): Promise<void> {
  try {
    await deleteFolder(path);
  } catch (error) {
    // Programs in containers run as other users than Berth may, whose files Berth then cannot delete.
    const message = `${path} cannot be deleted: ${formatErrorCode(error)}; delete it yourself`;
    store.events.record({ kind: "App", name: app, type: "Warning", reason: "FolderKept", message });
  }
}
