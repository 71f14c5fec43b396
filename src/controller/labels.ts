/** Labels that mark everything Berth makes on an engine. Nothing without INSTANCE is ever touched. */
export const INSTANCE = "dev.berth.instance";
export const APP = "dev.berth.app";
export const GENERATION = "dev.berth.generation";
/** Hash of all that makes a container: two containers with the same one are the same version. */
export const SPEC_HASH = "dev.berth.spec-hash";
export const REPLICA = "dev.berth.replica";
/** The role at creation. Engines cannot change labels later: the role of now follows from SPEC_HASH. */
export const ROLE = "dev.berth.role";
export const VOLUME = "dev.berth.volume";
/** The loopback port of this replica; a container with another one is replaced. */
export const LOOPBACK_PORT = "dev.berth.loopback-port";
/** On what Berth runs beside the apps, such as "ingress"; it carries no APP. */
export const COMPONENT = "dev.berth.component";
/**
 * On built images, in place of INSTANCE and APP: a container inherits its image's labels, and neither the
 * engine's own containers of a build nor one that a person starts from the image are ours. The instance's id
 * follows. One label says everything, because the classic builder makes a step, and a layer, of each.
 */
export const IMAGE_PREFIX = "dev.berth.image.";
/** The port on which the App of this container takes requests. */
export const PORT = "dev.berth.port";

/** What a built image says of itself. */
export interface ImageOrigin {
  readonly app: string;
  /** Number of the build's record. */
  readonly build: number;
  /** The commit or digest that it was made of. */
  readonly revision: string;
}

export function imageLabels(
  instance: string,
  { app, build, revision }: ImageOrigin,
): Readonly<Record<string, string>> {
  return { [IMAGE_PREFIX + instance]: `${app} ${build} ${revision}` };
}

/** Undefined for an image that this instance has not built. */
export function parseImageOrigin(
  instance: string,
  labels: Readonly<Record<string, string>>,
): ImageOrigin | undefined {
  const match = /^(\S+) (\d+) (\S+)$/.exec(labels[IMAGE_PREFIX + instance] ?? "");
  const [, app = "", build = "", revision = ""] = match ?? [];
  return match ? { app, build: Number(build), revision } : undefined;
}
