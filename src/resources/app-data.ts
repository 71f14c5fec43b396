import type { AppSpec } from "./app-spec.ts";
import { type Resource, VOLUME_POLICY_ANNOTATION } from "./resource.ts";
import { getStack } from "./stack.ts";

/** A named place in which the data of Apps outlives their containers. */
export interface DataPlace {
  /** volume: a volume of the engine. folder: a folder below Berth's data directory. */
  readonly type: "volume" | "folder";
  readonly name: string;
  /** The paths in the containers. */
  readonly paths: readonly string[];
  /** True if it belongs to the stack of the App rather than to the App. */
  readonly shared: boolean;
}

/** Lists the volumes and folders that an App, or its stack, owns. Folders of the machine (hostPath) are left out. */
export function listDataPlaces({ volumes = [], folders = [] }: AppSpec): readonly DataPlace[] {
  const mounts = [
    ...volumes.flatMap((volume) =>
      "name" in volume ? [{ ...volume, type: "volume" } as const] : [],
    ),
    ...folders.map((folder) => ({ ...folder, type: "folder" }) as const),
  ];
  const places = new Map<string, DataPlace>();
  for (const { type, name, path, shared = false } of mounts) {
    const key = `${type} ${name}`;
    const paths = places.get(key)?.paths ?? [];
    places.set(key, { type, name, paths: [...paths, path], shared });
  }
  return [...places.values()];
}

/** Lists the names of the other Apps of the same stack that use a shared place of `app`. */
export function listOtherUsers(
  app: Pick<Resource<"App">, "metadata">,
  place: DataPlace,
  apps: readonly Resource<"App">[],
): readonly string[] {
  const stack = getStack(app.metadata);
  if (!place.shared || stack === undefined) return [];
  return apps
    .filter(
      ({ metadata, spec }) =>
        metadata.name !== app.metadata.name &&
        getStack(metadata) === stack &&
        listDataPlaces(spec).some(
          (other) => other.shared && other.type === place.type && other.name === place.name,
        ),
    )
    .map(({ metadata }) => metadata.name);
}

/** True if the App is being deleted together with its volumes and folders. */
export function isDeletedWithData({ metadata }: Pick<Resource<"App">, "metadata">): boolean {
  return (
    metadata.deletionTimestamp !== null &&
    metadata.annotations[VOLUME_POLICY_ANNOTATION] === "delete"
  );
}
