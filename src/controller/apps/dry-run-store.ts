import type { Kind } from "../../resources/kinds.ts";
import { isKind } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import type { PlannedResource } from "../port.ts";

/**
 * The part of the store that is needed to resolve an App's spec. In a dry run, it also contains the resources that the
 * dry run would write.
 */
export type StoreReader = Pick<
  Store,
  "instanceId" | "get" | "list" | "secrets" | "revisions" | "ports" | "findMountProblem"
>;

/** Returns the store as if the planned resources of a dry run were already written. */
export function overlayPlannedResources(
  store: Store,
  planned: readonly PlannedResource[],
): StoreReader {
  const find = (kind: Kind, name: string) =>
    planned.find(({ resource }) => resource.kind === kind && resource.metadata.name === name);
  return {
    instanceId: store.instanceId,
    revisions: store.revisions,
    ports: store.ports,
    findMountProblem: (path) => store.findMountProblem(path),
    get: <K extends Kind>(kind: K, name: string) => {
      const resource = find(kind, name)?.resource;
      return resource && isKind(resource, kind) ? resource : store.get(kind, name);
    },
    list: (kind, filter) => store.list(kind, filter),
    secrets: { reveal: (name) => find("Secret", name)?.values ?? store.secrets.reveal(name) },
  };
}
