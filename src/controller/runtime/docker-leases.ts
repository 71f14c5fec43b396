import { leasePrefix } from "../engine-names.ts";
import { COMPONENT, INSTANCE } from "../labels.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { textsAt } from "./docker-json.ts";
import { READ_LIMIT_MS, VOLUME_LIMIT_MS } from "./docker-limits.ts";
import { removeVolume } from "./docker-networks.ts";
import type { Labels, ObservedLease } from "./port.ts";

/*
 * The records of the lease are empty volumes. Of the objects of an engine, only volumes have a unique name and an
 * atomic creation (a second creation returns the existing volume), need no image, and are not removed by `docker
 * system prune`, which removes stopped containers and unused networks. Names of networks are not unique.
 */

/** Implements `LeaseRuntime.createLease`. */
export async function createLease(
  connection: DockerConnection,
  instance: string,
  term: number,
  labels: Labels,
  signal: AbortSignal,
): Promise<void> {
  const body = { Name: leasePrefix(instance) + term, Labels: labels };
  await connection.call("create the lease", VOLUME_LIMIT_MS, signal, (_, bound) =>
    connection.request({ method: "POST", path: "/volumes/create", body }, bound),
  );
}

/** Implements `LeaseRuntime.listLeases`. */
export async function listLeases(
  connection: DockerConnection,
  instance: string,
  signal: AbortSignal,
): Promise<ObservedLease[]> {
  const label = [`${INSTANCE}=${instance}`, `${COMPONENT}=lease`];
  const listed = await connection.call("read the lease", READ_LIMIT_MS, signal, (docker, bound) =>
    docker.listVolumes({ filters: { label }, abortSignal: bound }),
  );
  const prefix = leasePrefix(instance);
  return (listed.Volumes ?? [])
    .filter(({ Name }) => Name.startsWith(prefix) && /^\d+$/.test(Name.slice(prefix.length)))
    .map((volume) => ({
      term: Number(volume.Name.slice(prefix.length)),
      labels: textsAt(volume, "Labels"),
    }));
}

/** Implements `LeaseRuntime.removeLease`. */
export function removeLease(
  connection: DockerConnection,
  instance: string,
  term: number,
  signal: AbortSignal,
): Promise<void> {
  return removeVolume(connection, leasePrefix(instance) + term, signal);
}
