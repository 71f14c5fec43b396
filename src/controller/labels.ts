/**
 * Berth sets the labels below on all objects that it creates on an engine. It never changes an object that lacks the
 * label INSTANCE.
 */
export const INSTANCE = "dev.berth.instance";
export const APP = "dev.berth.app";
/** The stack of a container's App, and of a network that the Apps of a stack share. */
export const STACK = "dev.berth.stack";
export const GENERATION = "dev.berth.generation";
/**
 * A hash of all settings of a container. An App's containers with the same hash belong to the same version of the App.
 */
export const SPEC_HASH = "dev.berth.spec-hash";
export const REPLICA = "dev.berth.replica";
/**
 * The role of a container when it was created, for users who inspect the container. An engine cannot change labels
 * later, so Berth itself derives the current role from SPEC_HASH.
 */
export const ROLE = "dev.berth.role";
export const VOLUME = "dev.berth.volume";
/** The loopback port of this replica. A container with another port is replaced. */
export const LOOPBACK_PORT = "dev.berth.loopback-port";
/**
 * The label of containers that Berth runs for itself, with a value such as "ingress". These containers have no label
 * APP.
 */
export const COMPONENT = "dev.berth.component";
/** The prefix of the labels on the records of the lease: holder, session, host, data-dir, since. */
export const LEASE_PREFIX = "dev.berth.lease.";
/** The port on which the App of this container accepts requests. */
export const PORT = "dev.berth.port";

/**
 * The reference of a container's image. Containers are created by the id of the image, from which the reference
 * cannot be derived.
 */
export const IMAGE_REFERENCE = "dev.berth.image-reference";
