import { statfs } from "node:fs/promises";
import os from "node:os";
import type { DockerConnection } from "./docker-connection.ts";
import { getErrorCode, textAt } from "./docker-json.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";

/**
 * Bytes that are free where the engine keeps images. Undefined for an engine of another machine, a
 * virtual one behind a local socket included: the same path would be another disk here.
 */
export async function freeBytes(
  connection: DockerConnection,
  signal: AbortSignal,
): Promise<number | undefined> {
  if (!connection.address.local) return undefined;
  const facts = await connection.call(
    "ask the engine about itself",
    READ_LIMIT_MS,
    signal,
    (_, bound) => connection.request({ method: "GET", path: "/info" }, bound),
  );
  const root = textAt(facts, "DockerRootDir");
  if (root === undefined || textAt(facts, "Name") !== os.hostname()) return undefined;
  try {
    const { bavail, bsize } = await statfs(root);
    return bavail * bsize;
  } catch (error) {
    // A folder that this user may not see tells nothing, one that is not there is on another machine.
    if (getErrorCode(error) !== undefined) return undefined;
    throw error;
  }
}
