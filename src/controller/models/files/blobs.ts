import { readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { fsyncDirectory } from "../../../base/atomic-file.ts";
import type { Clock } from "../../../base/clock.ts";
import type { Hasher } from "./hasher.ts";
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
 * Whole files under their sha256, each with a note of how it stood when it was last read and found right.
 * A file without a note, or another than the note tells of, is nobody's until it has been read again.
 */
export class Blobs {
  readonly #dir: string;
  readonly #clock: Clock;
  readonly #hasher: Hasher;

  constructor(dir: string, clock: Clock, hasher: Hasher) {
    this.#dir = dir;
    this.#clock = clock;
    this.#hasher = hasher;
  }

  getPath(sha256: string): string {
    return join(this.#dir, sha256);
  }

  /** Its size where it is there, verified and not touched since; reads no contents. */
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

  /** Bytes that lie under this name, verified or not. */
  async readSize(sha256: string): Promise<number | undefined> {
    if (!SHA256.test(sha256)) return undefined;
    return (await readFileStamp(this.getPath(sha256)))?.sizeBytes;
  }

  /** Takes over a file that was hashed a moment ago, flushed, and is on the same file system. */
  async adopt(from: string, sha256: string): Promise<void> {
    // The note's own flush of the folder is this name's too.
    await rename(from, this.getPath(sha256));
    const stamp = await readFileStamp(this.getPath(sha256));
    if (stamp) await this.#writeNote(sha256, stamp);
  }

  /**
   * Reads all of it. Where it is not what its name says it is removed; a process that has it open keeps what
   * it has. Undefined: there is none.
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
    const wanted = { gitBlobBytes: null };
    const path = this.getPath(sha256);
    const digests = await this.#hasher.hash(path, stamp.sizeBytes, wanted, onRead, signal);
    const isRight = digests.sha256 === sha256;
    // As it stood before it was read: what changed meanwhile is read again.
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
    // One that has no note has nothing to lose.
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

  /** Notes without a file, and notes that were being written when everything ended. */
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
