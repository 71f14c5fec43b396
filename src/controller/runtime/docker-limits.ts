/**
 * The time limits of calls. If a call takes longer, the engine counts as unreachable. All limits are far longer than a
 * loaded machine needs (the slowest observed time is given), so that only a stuck engine exceeds them.
 */

/**
 * The time limit of lists and inspections. They take milliseconds, but wait while a container is being started or
 * stopped.
 */
export const READ_LIMIT_MS = 30_000;
/**
 * The time limit of the creation of a container. A creation copies the content of the image's volumes, which takes
 * seconds for a database with data in its image.
 */
export const CREATE_LIMIT_MS = 120_000;
/**
 * The time limit of the start of a container. The engine waits for networks, volume drivers and the kernel, which takes
 * a second under load.
 */
export const START_LIMIT_MS = 120_000;
/** The time that a stop may take in addition to the grace period of the container. */
export const STOP_EXTRA_MS = 30_000;
/**
 * The time limit of a removal. It deletes the container's file system, which takes tens of seconds with many small
 * files on a slow disk.
 */
export const REMOVE_LIMIT_MS = 120_000;
export const NETWORK_LIMIT_MS = 60_000;
export const VOLUME_LIMIT_MS = 60_000;
/**
 * The time limit of the removal of an image. It equals the limit for a container, because both removals may delete
 * the same number of files.
 */
export const REMOVE_IMAGE_LIMIT_MS = 120_000;
/**
 * The time limit of a request for a manifest. A registry that takes longer is unreachable. docs/errors.md names this
 * limit and PULL_IDLE_LIMIT_MS.
 */
export const PULL_OPEN_LIMIT_MS = 120_000;
/**
 * The longest time without progress of a pull. A pull reports progress at least every second, except while one huge
 * file is extracted.
 */
export const PULL_IDLE_LIMIT_MS = 300_000;
export const PULL_LIMIT_MS = 6 * 3_600_000;
export const STREAM_OPEN_LIMIT_MS = 30_000;
/** The time limit between two chunks of a log that is not followed. */
export const LOG_IDLE_LIMIT_MS = 30_000;
/** The time after which the runtime ends any build. The configured timeout of a build is normally shorter. */
export const BUILD_LIMIT_MS = 6 * 3_600_000;
/** The time limit between two chunks of an upload. If an engine reads nothing for this time, it is stuck. */
export const BUILD_UPLOAD_IDLE_LIMIT_MS = 120_000;
/**
 * The time limit for the end of a build after an abort. The engine kills the running step. Then the step's container
 * is removed, if it still exists.
 */
export const BUILD_CANCEL_LIMIT_MS = 10_000;
/** The time limit for the engine's answer to end after an abort in the last step of a build. */
export const BUILD_LAST_STEP_LIMIT_MS = 2_000;
