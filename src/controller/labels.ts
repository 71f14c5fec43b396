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
 * engine's own containers of a build nor one that a person starts from the image are ours.
 */
export const IMAGE_INSTANCE = "dev.berth.image.instance";
export const IMAGE_APP = "dev.berth.image.app";
/** On built images: the commit or digest that they were made of, and the record of the build. */
export const REVISION = "dev.berth.revision";
export const BUILD = "dev.berth.build";
/** The port on which the App of this container takes requests. */
export const PORT = "dev.berth.port";
