import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import type { ResolvedFile } from "../hub/port.ts";
import { digestMismatch, sizeMismatch } from "./failures.ts";
import type { Hasher } from "./hasher.ts";
import { type FileStamp, isSameStamp, readVerified, stampOf, writeVerified } from "./verified.ts";

/** Files of this machine stay where they are. What was read of them is noted, so that it is read once. */
export class LocalFiles {
  readonly #dir: string;
  readonly #clock: Clock;
  readonly #hasher: Hasher;

  constructor(dir: string, clock: Clock, hasher: Hasher) {
    this.#dir = dir;
    this.#clock = clock;
    this.#hasher = hasher;
  }

  /** Its size where it is there and, if somebody gave a digest, was found to have it as it stands now. */
  async find(file: ResolvedFile, path: string): Promise<number | undefined> {
    const stamp = await stampOf(path);
    if (!stamp || (file.sizeBytes !== null && file.sizeBytes !== stamp.sizeBytes)) return undefined;
    if (file.sha256 === null) return stamp.sizeBytes;
    const note = await readVerified(this.#noteOf(path));
    return note && isSameStamp(note.stamp, stamp) && note.sha256 === file.sha256
      ? stamp.sizeBytes
      : undefined;
  }

  /** Reads it where a digest is given and it was not read as it stands now, or always. */
  async check(
    file: ResolvedFile,
    path: string,
    when: "unless-known" | "always",
    onRead: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<number> {
    const stamp = await stampOf(path);
    if (!stamp)
      throw new BerthError("hub_not_found", `there is no file ${file.name} on this machine`, {
        hint: "put it there, let Berth's user read it, or correct source",
      });
    if (file.sizeBytes !== null && file.sizeBytes !== stamp.sizeBytes)
      throw sizeMismatch(file.name, file.sizeBytes, stamp.sizeBytes);
    if (file.sha256 === null) return stamp.sizeBytes;
    const got =
      (when === "always" ? undefined : await this.#known(path, stamp)) ??
      (await this.#read(path, stamp, onRead, signal));
    if (got !== file.sha256) throw digestMismatch(file.name, file.sha256, got);
    return stamp.sizeBytes;
  }

  async #known(path: string, stamp: FileStamp): Promise<string | undefined> {
    const note = await readVerified(this.#noteOf(path));
    return note && isSameStamp(note.stamp, stamp) ? note.sha256 : undefined;
  }

  async #read(
    path: string,
    stamp: FileStamp,
    onRead: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<string> {
    const wanted = { gitBlobBytes: null };
    const { sha256 } = await this.#hasher.hash(path, stamp.sizeBytes, wanted, onRead, signal);
    // As it stood before it was read: what changed meanwhile is read again.
    await writeVerified(this.#noteOf(path), { stamp, sha256 }, this.#clock.now());
    return sha256;
  }

  #noteOf(path: string): string {
    return join(this.#dir, `${createHash("sha256").update(path).digest("hex")}.json`);
  }
}
