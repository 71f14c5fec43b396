/** The labels of everything that Berth creates on an engine. Berth never touches an object without INSTANCE. */
export const INSTANCE = "dev.berth.instance";
export const APP = "dev.berth.app";
export const GENERATION = "dev.berth.generation";
/** A hash of everything that makes a container: containers with the same hash are of the same version. */
export const SPEC_HASH = "dev.berth.spec-hash";
export const REPLICA = "dev.berth.replica";
/** The role at creation. Engines cannot change labels later, so the current role follows from SPEC_HASH. */
export const ROLE = "dev.berth.role";
export const VOLUME = "dev.berth.volume";
/** The loopback port of this replica; a container with another one is replaced. */
export const LOOPBACK_PORT = "dev.berth.loopback-port";
/** The label of containers that Berth runs for itself, such as "ingress"; they have no APP. */
export const COMPONENT = "dev.berth.component";
/** The prefix of the labels of the records of the lease: holder, session, host, data-dir, since. */
export const LEASE_PREFIX = "dev.berth.lease.";
/**
 * The prefix of the label of built images, followed by the instance's id. Used instead of INSTANCE and APP, because a
 * container inherits the labels of its image, and neither a build container of the engine nor one that the user starts
 * from the image belongs to Berth. One label has everything, because the classic builder adds a layer for each label.
 */
export const IMAGE_PREFIX = "dev.berth.image.";
/** The port on which the App of this container accepts requests. */
export const PORT = "dev.berth.port";

/** The content of the label of a built image. */
export interface ImageOrigin {
  readonly app: string;
  /** Number of the build's record. */
  readonly build: number;
  /** The commit or digest that it was built from. */
  readonly revision: string;
}

export function imageLabels(
  instance: string,
  { app, build, revision }: ImageOrigin,
): Readonly<Record<string, string>> {
  return { [IMAGE_PREFIX + instance]: `${app} ${build} ${revision}` };
}

/** Reads the label of a built image; undefined for an image that this instance has not built. */
export function parseImageOrigin(
  instance: string,
  labels: Readonly<Record<string, string>>,
): ImageOrigin | undefined {
  const match = /^(\S+) (\d+) (\S+)$/.exec(labels[IMAGE_PREFIX + instance] ?? "");
  const [, app = "", build = "", revision = ""] = match ?? [];
  return match ? { app, build: Number(build), revision } : undefined;
}
