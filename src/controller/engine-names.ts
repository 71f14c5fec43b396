/** All apps of one instance share a network, on which each is reached under its name. */
export function networkName(instance: string): string {
  return `berth-${instance}`;
}

export function volumeName(instance: string, app: string, volume: string): string {
  return `berth-${instance}-${app}-${volume}`;
}

export function containerName(
  instance: string,
  app: string,
  hash: string,
  replica: number,
): string {
  return `berth-${instance}-${app}-${hash.slice(0, 8)}-${replica}`;
}

/** The underscore keeps it apart from the volumes of apps. */
export function leasePrefix(instance: string): string {
  return `berth-${instance}_lease-`;
}
