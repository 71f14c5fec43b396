import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import type { ResolvedFile } from "../hub/port.ts";
import { digestMismatchError, sizeMismatchError } from "./download-errors.ts";
import type { Hasher } from "./hasher.ts";
import {
  type FileStamp,
  isSameStamp,
  readFileStamp,
  readVerificationNote,
  writeVerificationNote,
} from "./verification-note.ts";

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
    const stamp = await readFileStamp(path);
    if (!stamp || (file.sizeBytes !== null && file.sizeBytes !== stamp.sizeBytes)) return undefined;
    if (file.sha256 === null) return stamp.sizeBytes;
    const note = await readVerificationNote(this.#getNotePath(path));
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
    const stamp = await readFileStamp(path);
    if (!stamp)
      throw new BerthError("hub_not_found", `there is no file ${file.name} on this machine`, {
        hint: "put it there, let Berth's user read it, or correct source",
      });
    if (file.sizeBytes !== null && file.sizeBytes !== stamp.sizeBytes)
      throw sizeMismatchError(file.name, file.sizeBytes, stamp.sizeBytes);
    if (file.sha256 === null) return stamp.sizeBytes;
    const got =
      (when === "always" ? undefined : await this.#findKnownDigest(path, stamp)) ??
      (await this.#hashFile(path, stamp, onRead, signal));
    if (got !== file.sha256) throw digestMismatchError(file.name, file.sha256, got);
    return stamp.sizeBytes;
  }

  async #findKnownDigest(path: string, stamp: FileStamp): Promise<string | undefined> {
    const note = await readVerificationNote(this.#getNotePath(path));
    return note && isSameStamp(note.stamp, stamp) ? note.sha256 : undefined;
  }

  async #hashFile(
    path: string,
    stamp: FileStamp,
    onRead: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<string> {
    const wanted = { gitBlobBytes: null };
    const { sha256 } = await this.#hasher.hash(path, stamp.sizeBytes, wanted, onRead, signal);
    // As it stood before it was read: what changed meanwhile is read again.
    await writeVerificationNote(this.#getNotePath(path), { stamp, sha256 }, this.#clock.now());
    return sha256;
  }

  #getNotePath(path: string): string {
    return join(this.#dir, `${createHash("sha256").update(path).digest("hex")}.json`);
  }
}
