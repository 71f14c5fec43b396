import { statfs } from "node:fs/promises";
import { BerthError } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { EngineHost } from "../runtime/port.ts";

/**
 * The free space that a build needs. A small base image with the dependencies of a typical app has some hundred
 * megabytes of layers, and the source briefly exists twice: unpacked, and at the engine.
 */
export const FREE_BYTES_MIN = 2 ** 30;

/** Throws `disk_full` before a build that would run out of space. */
export async function checkFreeSpace(
  places: { readonly runtime: Pick<EngineHost, "freeBytes">; readonly dataDir: string },
  bytesMin: number,
  signal: AbortSignal,
): Promise<void> {
  const engine = await places.runtime.freeBytes(signal);
  if (engine !== undefined && engine < bytesMin)
    throw insufficientSpaceError(
      engine,
      bytesMin,
      "on the disk of the engine's images",
      "find out what to remove with: docker system df",
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
    `${formatBytes(there)} are free ${where}, but a build needs ${formatBytes(wanted)}`,
    { hint },
  );
}
