import { readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { fsyncDirectory } from "../../../base/atomic-file.ts";
import type { Clock } from "../../../base/clock.ts";
import { hashFile } from "./file-hash.ts";
import {
  type FileStamp,
  isSameStamp,
  readFileStamp,
  readVerificationNote,
  updateLastUsed,
  writeVerificationNote,
} from "./verification-note.ts";

const SHA256 = /^[0-9a-f]{64}$/;

export interface StoredBlob {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly usedMs: number;
}

/**
 * Complete files, named by their sha256. A note next to each file describes the file's state when it was last
 * verified. A file without a note, or a file that has changed since, is verified again before it is used.
 */
export class Blobs {
  readonly #dir: string;
  readonly #clock: Clock;

  constructor(dir: string, clock: Clock) {
    this.#dir = dir;
    this.#clock = clock;
  }

  getPath(sha256: string): string {
    return join(this.#dir, sha256);
  }

  /** Returns the size of a verified, unchanged file without reading its contents; undefined otherwise. */
  async find(sha256: string): Promise<number | undefined> {
    if (!SHA256.test(sha256)) return undefined;
    const [stamp, note] = await Promise.all([
      readFileStamp(this.getPath(sha256)),
      readVerificationNote(this.#getNotePath(sha256)),
    ]);
    if (!stamp || !note || note.sha256 !== sha256 || !isSameStamp(stamp, note.stamp))
      return undefined;
    return stamp.sizeBytes;
  }

  /** Returns the size of the file with this name, verified or not. */
  async readSize(sha256: string): Promise<number | undefined> {
    if (!SHA256.test(sha256)) return undefined;
    return (await readFileStamp(this.getPath(sha256)))?.sizeBytes;
  }

  /**
   * Moves a file into the store. The file is on the same file system, and the caller has just flushed and hashed it.
   */
  async adopt(from: string, sha256: string): Promise<void> {
    // `#writeNote` flushes the folder, which contains the file and its verification note, and so makes the rename of
    // the file durable, too.
    await rename(from, this.getPath(sha256));
    const stamp = await readFileStamp(this.getPath(sha256));
    if (stamp) await this.#writeNote(sha256, stamp);
  }

  /**
   * Reads the whole file, and removes it if its digest differs from its name. Processes that have the file open can
   * still read it. Returns undefined if there is no such file.
   */
  async verify(
    sha256: string,
    onRead: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<
    { readonly isRight: boolean; readonly got: string; readonly sizeBytes: number } | undefined
  > {
    const stamp = await readFileStamp(this.getPath(sha256));
    if (!stamp) return undefined;
    const digests = await hashFile(this.getPath(sha256), stamp.sizeBytes, onRead, signal);
    const isRight = digests.sha256 === sha256;
    // The file's stamp is read before its content, so that a file that changes meanwhile is verified again.
    if (isRight) await this.#writeNote(sha256, stamp);
    else await this.remove(sha256);
    return { isRight, got: digests.sha256, sizeBytes: stamp.sizeBytes };
  }

  async remove(sha256: string): Promise<void> {
    await rm(this.#getNotePath(sha256), { force: true });
    await rm(this.getPath(sha256), { force: true });
    await fsyncDirectory(this.#dir);
  }

  async touch(sha256: string): Promise<void> {
    // The modification time of the verification note is the time of the file's last use. A file without a note has no
    // time of last use, so a missing note is not an error.
    await updateLastUsed(this.#getNotePath(sha256), this.#clock.now()).catch(() => {});
  }

  async list(): Promise<StoredBlob[]> {
    const names = await readdir(this.#dir).catch(() => []);
    const blobs: StoredBlob[] = [];
    for (const sha256 of names.filter((name) => SHA256.test(name))) {
      const found = await stat(this.getPath(sha256)).catch(() => undefined);
      if (!found?.isFile()) continue;
      const note = await stat(this.#getNotePath(sha256)).catch(() => undefined);
      blobs.push({ sha256, sizeBytes: found.size, usedMs: (note ?? found).mtimeMs });
    }
    return blobs;
  }

  /** Removes the verification notes of files that no longer exist, and notes whose writing was interrupted. */
  async sweep(): Promise<void> {
    const names = new Set(await readdir(this.#dir).catch(() => []));
    for (const name of names) {
      const [sha256 = ""] = name.split(".");
      const isLeftOver = name.endsWith(".new") || (name.endsWith(".json") && !names.has(sha256));
      if (isLeftOver) await rm(join(this.#dir, name), { force: true });
    }
  }

  async #writeNote(sha256: string, stamp: FileStamp): Promise<void> {
    await writeVerificationNote(this.#getNotePath(sha256), { stamp, sha256 }, this.#clock.now());
  }

  #getNotePath(sha256: string): string {
    return `${this.getPath(sha256)}.json`;
  }
}
