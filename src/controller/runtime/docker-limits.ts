/**
 * How long each kind of call may take before the engine counts as away. All are far above what a
 * loaded machine needs (the slowest seen is given), so that only a stuck engine meets them.
 */

/** Lists and inspections take milliseconds, but wait while the container is being started or stopped. */
export const READ_LIMIT_MS = 30_000;
/** Creating copies an image's volume contents: seconds for databases with data in the image. */
export const CREATE_LIMIT_MS = 120_000;
/** Starting waits for networks, volume drivers and the kernel; a second under load. */
export const START_LIMIT_MS = 120_000;
/** On top of the grace that a stop gives the process. */
export const STOP_EXTRA_MS = 30_000;
/** Removing deletes the container's file system: tens of seconds for many small files on a slow disk. */
export const REMOVE_LIMIT_MS = 120_000;
export const NETWORK_LIMIT_MS = 60_000;
export const VOLUME_LIMIT_MS = 60_000;
/** Deleting layers, as for a container. */
export const REMOVE_IMAGE_LIMIT_MS = 120_000;
/** A registry that needs longer for a manifest is away. */
export const PULL_OPEN_LIMIT_MS = 120_000;
/** A pull says something at least every second while it moves; extracting one huge file is the longest silence. */
export const PULL_IDLE_LIMIT_MS = 300_000;
export const PULL_LIMIT_MS = 6 * 3_600_000;
export const STREAM_OPEN_LIMIT_MS = 30_000;
/** Between two chunks of a log that is read but not followed. */
export const LOG_IDLE_LIMIT_MS = 30_000;
/** As long as the longest build is let run by its own limit of time, which ends it before this does. */
export const BUILD_LIMIT_MS = 6 * 3_600_000;
/** While the context is sent: an engine that takes nothing for so long is stuck. */
export const BUILD_UPLOAD_IDLE_LIMIT_MS = 120_000;
/** After an abort the engine kills the step that runs; then its container is removed, where it is left. */
export const BUILD_CANCEL_LIMIT_MS = 10_000;
