import { statfs } from "node:fs/promises";
import os from "node:os";
import type { DockerConnection } from "./docker-connection.ts";
import { getErrorCode, textAt } from "./docker-json.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";

/**
 * Returns the free bytes on the disk with the engine's images. Undefined for an engine on another machine or in a
 * virtual machine, because its path would name a different disk on this machine.
 */
export async function freeBytes(
  connection: DockerConnection,
  signal: AbortSignal,
): Promise<number | undefined> {
  if (connection.address.location !== "this-machine") return undefined;
  const facts = await connection.call(
    "read the engine's facts",
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
    // The free space is unknown: the folder is not accessible for this user, or is on another machine.
    if (getErrorCode(error) !== undefined) return undefined;
    throw error;
  }
}
