import { statfs } from "node:fs/promises";
import { BerthError } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { ContainerRuntime } from "../runtime/port.ts";

/**
 * What a build must find free. A small base image with the dependencies of a usual app comes to
 * some hundred megabytes of layers, and the source is there twice for a moment: unpacked, and at the engine.
 */
export const FREE_BYTES_MIN = 2 ** 30;

/** Throws `disk_full` where a build would run out of space before it has begun in earnest. */
export async function checkFreeSpace(
  places: { readonly runtime: ContainerRuntime; readonly dataDir: string },
  bytesMin: number,
  signal: AbortSignal,
): Promise<void> {
  const engine = await places.runtime.freeBytes(signal);
  if (engine !== undefined && engine < bytesMin)
    throw insufficientSpaceError(
      engine,
      bytesMin,
      "where the engine keeps its images",
      "look what can go: docker system df",
    );
  const { bavail, bsize } = await statfs(places.dataDir);
  const own = bavail * bsize;
  if (own < bytesMin)
    throw insufficientSpaceError(
      own,
      bytesMin,
      "in Berth's data directory",
      "free some space there",
    );
}

function insufficientSpaceError(
  there: number,
  wanted: number,
  where: string,
  hint: string,
): BerthError {
  return new BerthError(
    "disk_full",
    `${formatBytes(there)} are free ${where}, and a build wants ${formatBytes(wanted)}`,
    { hint },
  );
}
