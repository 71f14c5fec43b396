import type { Resource } from "./resource.ts";

/** Another App that has the same name on the network of all Apps. */
export interface HostNameConflict {
  readonly owner: string;
  readonly name: string;
  /** The field of the checked App from which the conflicting name comes. */
  readonly field: "hostname" | "name";
}

/**
 * Returns the App that a new host name or a new App would share a name with. The engine makes the host name of a
 * container one of its names on each network, so that requests to the name of an App would also reach another App that
 * has this host name. `stored` is the App before the change; a conflict that it already has is allowed.
 */
export function findHostNameConflict(
  { metadata, spec }: Resource<"App">,
  stored: Resource<"App"> | undefined,
  apps: Iterable<Resource<"App">>,
): HostNameConflict | undefined {
  const hostname = spec.hostname?.toLowerCase();
  const isNewHostname = hostname !== stored?.spec.hostname?.toLowerCase();
  if (!isNewHostname && stored !== undefined) return undefined;
  for (const other of apps) {
    const owner = other.metadata.name;
    if (owner === metadata.name || other.metadata.deletionTimestamp !== null) continue;
    if (isNewHostname && owner === hostname) return { owner, name: owner, field: "hostname" };
    if (stored === undefined && other.spec.hostname?.toLowerCase() === metadata.name)
      return { owner, name: metadata.name, field: "name" };
  }
  return undefined;
}
