import type { Stats } from "node:fs";
import { lstat, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { getErrorCode } from "../../../base/errors.ts";
import { ToolAppError } from "../tool-apps.ts";

/** The size of sockaddr_un.sun_path on Linux, without its terminating zero byte. */
const SOCKET_PATH_BYTES_MAX = 107;

/** Matches letters, digits, `_` and `-` in parts between dots, so that an id cannot be a path out of the folder. */
const appIdPattern = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/**
 * The folder of the apps' sockets. A user who can write in the folder can answer in an app's name, so the folder and
 * each socket must belong to this user alone; Node.js cannot report which user is at the other end of a connection.
 */
export class SocketFolder {
  readonly path: string;
  readonly #userId: number;

  constructor(path: string, userId = process.getuid?.() ?? 0) {
    this.path = path;
    this.#userId = userId;
  }

  /** Creates the folder and its parent if they are missing. Rejects with ToolAppError `app_unavailable`. */
  async ensure(): Promise<void> {
    try {
      // Only the socket folder and its parent are created, because the folders above them belong to the user's session.
      for (const folder of [dirname(this.path), this.path]) await makeFolder(folder);
    } catch (error) {
      throw unavailableError("the folder of the apps' sockets cannot be created", error);
    }
    await this.#checkFolder();
  }

  /**
   * Returns the path of the app's socket and whether the socket exists. Rejects with ToolAppError `app_unavailable`
   * if the folder or the socket does not belong to this user alone, or the id cannot be a socket name.
   */
  async find(appId: string): Promise<{ readonly path: string; readonly isThere: boolean }> {
    const path = join(this.path, `${appId}.sock`);
    if (!appIdPattern.test(appId) || Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
      throw unavailableError(
        "the app's id cannot be a socket name: it is too long, or has characters other than a-z, 0-9, _, - and dots",
      );
    }
    await this.#checkFolder();
    const stats = await lstatIfPresent(path);
    if (!stats) return { path, isThere: false };
    if (!stats.isSocket())
      throw unavailableError(`the file at the socket path of ${appId} is not a socket`);
    if (stats.uid !== this.#userId)
      throw unavailableError(`the socket of ${appId} belongs to another user`);
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
        "the folder of the apps' sockets is accessible to other users: give it mode 0700",
      );
    }
  }
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (getErrorCode(error) !== "EEXIST") throw error;
  }
}

async function lstatIfPresent(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return undefined;
    throw unavailableError("the folder of the apps' sockets cannot be read", error);
  }
}

function unavailableError(message: string, cause?: unknown): ToolAppError {
  return new ToolAppError("app_unavailable", message, { cause });
}
