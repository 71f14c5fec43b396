/**
 * Returns the name of the network that all apps of one instance share. In this network, each app is reachable under its
 * own name.
 */
export function networkName(instance: string): string {
  return `berth-${instance}`;
}

/**
 * Returns the name of the network that the apps of a stack share, in addition to the network of the instance. Docker
 * asks the networks of a container for a name in the order of the networks' names. This network comes first, because
 * `-` sorts before letters and digits, so that the name `db` is resolved to the service of the stack, even if an app
 * without a stack is called `db`.
 */
export function stackNetworkName(instance: string, stack: string): string {
  return `berth--${instance}-${stack}`;
}

export function volumeName(instance: string, app: string, volume: string): string {
  return `berth-${instance}-${app}-${volume}`;
}

/**
 * Returns the name of a volume that the apps of a stack share. The underscore, which names of stacks cannot have, keeps
 * the volume `c` of the stack `a-b` apart from the volume `b-c` of the stack `a`.
 */
export function sharedVolumeName(instance: string, stack: string, volume: string): string {
  return `berth--${instance}-${stack}_${volume}`;
}

export function containerName(
  instance: string,
  app: string,
  hash: string,
  replica: number,
): string {
  return `berth-${instance}-${app}-${hash.slice(0, 8)}-${replica}`;
}

/**
 * Returns the repository of the images that are built for an app. The repository name rather than a label identifies
 * the app of an image. With the classic builder, a label adds a layer, which takes a fifth of the time of a small
 * build. Containers that a user starts from the image would also inherit the label.
 */
export function imageRepository(instance: string, app: string): string {
  return `berth-${instance}/${app}`;
}

/** Returns the app of an image by its tag; undefined if the tag does not have the form that this instance uses. */
export function findAppOfImage(instance: string, tag: string): string | undefined {
  const prefix = imageRepository(instance, "");
  const [app, version, ...others] = tag.startsWith(prefix)
    ? tag.slice(prefix.length).split(":")
    : [];
  return app && version && others.length === 0 ? app : undefined;
}

/**
 * Returns the prefix of the volumes that are the records of the engine lease. The underscore distinguishes them from
 * the volumes of apps.
 */
export function leasePrefix(instance: string): string {
  return `berth-${instance}_lease-`;
}
