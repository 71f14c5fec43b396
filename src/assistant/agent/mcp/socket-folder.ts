import type { Stats } from "node:fs";
import { lstat, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ToolAppError } from "../tool-apps.ts";

/** sockaddr_un.sun_path of Linux, without its closing zero. */
const SOCKET_PATH_BYTES_MAX = 107;

/** Letters, digits, `_`, `-` in parts between dots: nothing that leads out of a folder. */
const appIdPattern = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/**
 * The folder where apps have their sockets. Whoever may write there may answer in an app's name, so it has to
 * be this user's alone, and so has each socket: Node does not tell who is at the other end of a connection.
 */
export class SocketFolder {
  readonly path: string;
  readonly #userId: number;

  constructor(path: string, userId = process.getuid?.() ?? 0) {
    this.path = path;
    this.#userId = userId;
  }

  /** Makes it where it is not there, and the folder above it. Rejects with ToolAppError `app_unavailable`. */
  async ensure(): Promise<void> {
    try {
      // Above it stands what the session has, which is not ours to make.
      for (const folder of [dirname(this.path), this.path]) await makeFolder(folder);
    } catch (error) {
      throw unavailableError("the folder of the apps' sockets cannot be made", error);
    }
    await this.#checkFolder();
  }

  /**
   * The path of the app's socket, and whether there is one. Rejects with ToolAppError `app_unavailable` where
   * the folder or the socket is not this user's alone, or the id cannot name a socket.
   */
  async find(appId: string): Promise<{ readonly path: string; readonly isThere: boolean }> {
    const path = join(this.path, `${appId}.sock`);
    if (!appIdPattern.test(appId) || Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
      throw unavailableError(
        "the app's id cannot be the name of a socket: too long, or not in a-z.0-9",
      );
    }
    await this.#checkFolder();
    const stats = await lstatIfPresent(path);
    if (!stats) return { path, isThere: false };
    if (!stats.isSocket())
      throw unavailableError(`what stands in the place of ${appId} is no socket`);
    if (stats.uid !== this.#userId)
      throw unavailableError(`the socket of ${appId} is another user's`);
    return { path, isThere: true };
  }

  async #checkFolder(): Promise<void> {
    const stats = await lstatIfPresent(this.path);
    if (!stats) return;
    if (!stats.isDirectory() || stats.uid !== this.#userId) {
      throw unavailableError("the folder of the apps' sockets is not a folder of this user");
    }
    if ((stats.mode & 0o077) !== 0) {
      throw unavailableError(
        "the folder of the apps' sockets is open to others: give it mode 0700",
      );
    }
  }
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw error;
  }
}

async function lstatIfPresent(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw unavailableError("the folder of the apps' sockets cannot be read", error);
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

function unavailableError(message: string, cause?: unknown): ToolAppError {
  return new ToolAppError("app_unavailable", message, { cause });
}
