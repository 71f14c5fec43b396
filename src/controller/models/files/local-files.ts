import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import type { ResolvedFile } from "../hub/port.ts";
import { digestMismatchError, sizeMismatchError } from "./download-errors.ts";
import { hashFile } from "./file-hash.ts";
import {
  type FileStamp,
  isSameStamp,
  readFileStamp,
  readVerificationNote,
  writeVerificationNote,
} from "./verification-note.ts";

/**
 * Files of this machine that models use in place, without a copy. A verification note with the digest of each file
 * saves reading an unchanged file again.
 */
export class LocalFiles {
  readonly #dir: string;
  readonly #clock: Clock;

  constructor(dir: string, clock: Clock) {
    this.#dir = dir;
    this.#clock = clock;
  }

  /**
   * Returns the size of the file. If a digest is expected, returns undefined unless the file was verified and is
   * unchanged.
   */
  async find(file: ResolvedFile, path: string): Promise<number | undefined> {
    const stamp = await readFileStamp(path);
    if (!stamp || (file.sizeBytes !== null && file.sizeBytes !== stamp.sizeBytes)) return undefined;
    if (file.sha256 === null) return stamp.sizeBytes;
    const note = await readVerificationNote(this.#getNotePath(path));
    return note && isSameStamp(note.stamp, stamp) && note.sha256 === file.sha256
      ? stamp.sizeBytes
      : undefined;
  }

  /**
   * Verifies the expected digest, if there is one. Reads the file only if it has changed since the last check, unless
   * `when` is "always".
   */
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
        hint: "create the file, make it readable for Berth's user, or correct the field `source`",
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
    const { sha256 } = await hashFile(path, stamp.sizeBytes, onRead, signal);
    // `stamp` was read before the content of the file, so that a file that changes meanwhile is verified again.
    await writeVerificationNote(this.#getNotePath(path), { stamp, sha256 }, this.#clock.now());
    return sha256;
  }

  #getNotePath(path: string): string {
    return join(this.#dir, `${createHash("sha256").update(path).digest("hex")}.json`);
  }
}
