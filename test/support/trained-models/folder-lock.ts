import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { getErrorCode } from "../../../src/base/errors.ts";

const WAIT_MS = 500;

/**
 * Waits until no other process holds the lock of this folder, and holds it until it is disposed of. The lock is a
 * listener on an abstract socket, which the system closes when a process is killed.
 */
export async function lockFolder(dir: string, onWait: () => void): Promise<AsyncDisposable> {
  const name = createHash("sha256").update(dir).digest("hex");
  for (let isFirst = true; ; isFirst = false) {
    const server = createServer();
    try {
      server.listen(`\0berth-folder-${name}`);
      await once(server, "listening");
      return server;
    } catch (error) {
      if (getErrorCode(error) !== "EADDRINUSE") throw error;
    }
    if (isFirst) onWait();
    await pause(WAIT_MS);
  }
}
