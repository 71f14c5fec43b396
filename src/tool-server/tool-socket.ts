import { once } from "node:events";
import { chmod, lstat, mkdir, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { ConflictError, getErrorCode } from "../base/errors.ts";

/** Returns the path of the socket of an app that serves tools. */
export function getAppSocketPath(runtimeDir: string, appId: string): string {
  return join(runtimeDir, "assistant", "apps", `${appId}.sock`);
}

/**
 * Listens on a Unix socket that only this user can access, and replaces a socket file that a crash has left behind.
 * Throws ConflictError `wrong_state` if another process listens there, or other users can access the folder.
 */
export async function listenOnSocket(
  path: string,
  onConnection: (socket: Socket) => void,
): Promise<Server> {
  const folder = dirname(path);
  for (const made of [dirname(folder), folder])
    await mkdir(made, { mode: 0o700 }).catch((error: unknown) => {
      if (getErrorCode(error) !== "EEXIST") throw error;
    });
  const stats = await lstat(folder);
  if (!stats.isDirectory() || stats.uid !== process.getuid?.() || (stats.mode & 0o077) !== 0)
    throw new ConflictError("wrong_state", "other users can access the folder of the sockets", {
      hint: "set its mode to 0700",
    });
  const server = createServer(onConnection);
  try {
    await listenOn(server, path);
  } catch (error) {
    if (getErrorCode(error) !== "EADDRINUSE") throw error;
    if (await hasListener(path))
      throw new ConflictError("wrong_state", "another process already serves the tools of Berth");
    await rm(path, { force: true });
    await listenOn(server, path);
  }
  await chmod(path, 0o600);
  return server;
}

async function listenOn(server: Server, path: string): Promise<void> {
  server.listen(path);
  await once(server, "listening");
}

function hasListener(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
