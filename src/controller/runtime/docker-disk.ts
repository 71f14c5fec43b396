import { statfs } from "node:fs/promises";
import os from "node:os";
import type { DockerConnection, EngineVersion } from "./docker-connection.ts";
import { getErrorCode, textAt } from "./docker-json.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";

/** Reads the free space of the disk with the engine's images. */
export class EngineDisk {
  readonly #connection: DockerConnection;
  /**
   * For each version object of the engine, the engine's data folder; undefined if the engine is on another machine. A
   * loss of the engine makes the connection negotiate again, which creates another version object, so that the folder
   * is requested again. The engine takes about 25 ms to answer with the folder, because it runs other programs for the
   * rest of the answer.
   */
  readonly #folders = new WeakMap<EngineVersion, string | undefined>();

  constructor(connection: DockerConnection) {
    this.#connection = connection;
  }

  /**
   * Returns the free bytes. Undefined for an engine on another machine or in a virtual machine, because its path would
   * name a different disk on this machine.
   */
  async readFreeBytes(signal: AbortSignal): Promise<number | undefined> {
    if (this.#connection.address.location !== "this-machine") return undefined;
    const folder = await this.#findFolder(signal);
    if (folder === undefined) return undefined;
    try {
      const { bavail, bsize } = await statfs(folder);
      return bavail * bsize;
    } catch (error) {
      // The free space is unknown: the folder is not accessible for this user, or is on another machine.
      if (getErrorCode(error) !== undefined) return undefined;
      throw error;
    }
  }

  async #findFolder(signal: AbortSignal): Promise<string | undefined> {
    const version = await this.#connection.version(signal);
    if (this.#folders.has(version)) return this.#folders.get(version);
    const facts = await this.#connection.call(
      "read the engine's facts",
      READ_LIMIT_MS,
      signal,
      (_, bound) => this.#connection.request({ method: "GET", path: "/info" }, bound),
    );
    const folder =
      textAt(facts, "Name") === os.hostname() ? textAt(facts, "DockerRootDir") : undefined;
    this.#folders.set(version, folder);
    return folder;
  }
}
