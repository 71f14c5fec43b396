import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, open } from "node:fs/promises";
import type { Socket } from "node:net";
import { dirname } from "node:path";
import { getErrorCode } from "../../../base/errors.ts";
import { ToolAppError } from "../tool-apps.ts";
import { openSocket } from "./open-socket.ts";

/**
 * Longest file name of a socket. Linux limits the path to 107 bytes, of which `/proc/self/fd/` and a file descriptor
 * of seven digits take 22.
 */
const SOCKET_NAME_BYTES_MAX = 85;

/** Matches letters, digits, `_` and `-` in parts between dots, so that an id cannot be a path out of the folder. */
const appIdPattern = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

export interface ConnectionAttempt {
  /** True if the app's socket exists. A crash leaves the socket behind. */
  readonly isThere: boolean;
  /** The connection; undefined if no process listens on the socket. */
  readonly socket: Socket | undefined;
}

/**
 * The folder of the apps' sockets. A user who can write in the folder can answer in an app's name, so the folder and
 * each socket must belong to this user alone; Node.js cannot report which user is at the other end of a connection.
 */
export class SocketFolder {
  readonly path: string;
  readonly #userId: number;
  readonly #openSocket: typeof openSocket;

  constructor(
    path: string,
    options: { readonly userId?: number; readonly openSocket?: typeof openSocket } = {},
  ) {
    this.path = path;
    this.#userId = options.userId ?? process.getuid?.() ?? 0;
    this.#openSocket = options.openSocket ?? openSocket;
  }

  /** Creates the folder and its parent if they are missing. Rejects with ToolAppError `app_unavailable`. */
  async ensure(): Promise<void> {
    try {
      // Only the socket folder and its parent are created, because the folders above them belong to the user's session.
      for (const folder of [dirname(this.path), this.path]) await makeFolder(folder);
    } catch (error) {
      throw unavailableError("the folder of the apps' sockets cannot be created", error);
    }
    await (await this.#open())?.close();
  }

  /**
   * Returns the file name of the app's socket. Throws ToolAppError `app_unavailable` if the id cannot be a file name.
   */
  getSocketName(appId: string): string {
    const name = `${appId}.sock`;
    if (appIdPattern.test(appId) && Buffer.byteLength(name) <= SOCKET_NAME_BYTES_MAX) return name;
    throw unavailableError(
      "the app's id cannot be a socket name: it is too long, or has characters other than a-z, 0-9, _, - and dots",
    );
  }

  /**
   * Connects to the app's socket. Rejects with ToolAppError `app_unavailable` if the folder or the socket does not
   * belong to this user alone, or the id cannot be a socket name, and with the signal's reason.
   */
  async connect(appId: string, signal: AbortSignal): Promise<ConnectionAttempt> {
    const name = this.getSocketName(appId);
    const folder = await this.#open();
    if (!folder) return { isThere: false, socket: undefined };
    try {
      // This path leads through the open folder, so no other folder can take its place between the checks and the
      // connection. Only this user can replace the socket in it.
      const path = `/proc/self/fd/${folder.fd}/${name}`;
      const stats = await lstatIfPresent(path);
      if (!stats) return { isThere: false, socket: undefined };
      if (!stats.isSocket())
        throw unavailableError(`the file at the socket path of ${appId} is not a socket`);
      if (stats.uid !== this.#userId)
        throw unavailableError(`the socket of ${appId} belongs to another user`);
      return { isThere: true, socket: await this.#openSocket(path, signal) };
    } finally {
      await folder.close();
    }
  }

  /** Opens the folder and checks that it belongs to this user alone. Returns undefined if it does not exist. */
  async #open(): Promise<FileHandle | undefined> {
    const folder = await openFolderIfPresent(this.path);
    if (!folder) return undefined;
    try {
      this.#assertOwn(await folder.stat());
      return folder;
    } catch (error) {
      await folder.close();
      throw error;
    }
  }

  #assertOwn(stats: Stats): void {
    if (stats.uid !== this.#userId) throw foreignFolderError();
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

async function openFolderIfPresent(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch (error) {
    const code = getErrorCode(error);
    if (code === "ENOENT") return undefined;
    if (code === "ENOTDIR" || code === "ELOOP") throw foreignFolderError();
    throw unavailableError("the folder of the apps' sockets cannot be read", error);
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

function foreignFolderError(): ToolAppError {
  return unavailableError("the folder of the apps' sockets is not a folder of this user");
}

function unavailableError(message: string, cause?: unknown): ToolAppError {
  return new ToolAppError("app_unavailable", message, { cause });
}
