/**
 * The time limits of calls, after which the engine counts as unreachable. All are far longer than a loaded machine
 * needs (the slowest observed time is given), so that only a stuck engine exceeds them.
 */

/**
 * The time limit of lists and inspections. They take milliseconds, but wait while a container is being started or
 * stopped.
 */
export const READ_LIMIT_MS = 30_000;
/**
 * The time limit of a creation. It copies the image's volume contents: seconds for databases with data in the image.
 */
export const CREATE_LIMIT_MS = 120_000;
/** The time limit of a start. It waits for networks, volume drivers and the kernel: a second under load. */
export const START_LIMIT_MS = 120_000;
/** The time limit of a stop, in addition to its grace period. */
export const STOP_EXTRA_MS = 30_000;
/**
 * The time limit of a removal. It deletes the container's file system: tens of seconds for many small files on a slow
 * disk.
 */
export const REMOVE_LIMIT_MS = 120_000;
export const NETWORK_LIMIT_MS = 60_000;
export const VOLUME_LIMIT_MS = 60_000;
/** The time limit of the removal of an image. It deletes layers, like the removal of a container. */
export const REMOVE_IMAGE_LIMIT_MS = 120_000;
/**
 * The time limit of a manifest. A registry that takes longer is unreachable; docs/errors.md names this limit and the
 * next one.
 */
export const PULL_OPEN_LIMIT_MS = 120_000;
/**
 * The longest silence of a pull. A pull reports progress at least every second, except while one huge file is
 * extracted.
 */
export const PULL_IDLE_LIMIT_MS = 300_000;
export const PULL_LIMIT_MS = 6 * 3_600_000;
export const STREAM_OPEN_LIMIT_MS = 30_000;
/** The time limit between two chunks of a log that is not followed. */
export const LOG_IDLE_LIMIT_MS = 30_000;
/** The longest possible limit of a build, which normally ends the build before this one. */
export const BUILD_LIMIT_MS = 6 * 3_600_000;
/** The time limit between two chunks of an upload: an engine that reads nothing for this time is stuck. */
export const BUILD_UPLOAD_IDLE_LIMIT_MS = 120_000;
/**
 * The time limit of the end of a build after an abort. The engine kills the running step; then the step's container is
 * removed if it still exists.
 */
export const BUILD_CANCEL_LIMIT_MS = 10_000;
