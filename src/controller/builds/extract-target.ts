import { constants } from "node:fs";
import { chmod, link, lstat, mkdir, open, symlink, unlink } from "node:fs/promises";
import { join, posix } from "node:path";
import { formatBytes } from "../../base/units.ts";
import { leadsOutside } from "../../source-tree/link-target.ts";
import type { ArchiveEntry } from "./extract-entries.ts";
import { isEscapingSymlink } from "./extract-links.ts";
import { normalizeEntryPath, refusedEntryError } from "./extract-paths.ts";

export interface ExtractLimits {
  /** Of the contents of all files together, hard links counted as files. */
  readonly bytesMax: number;
  /** Of files, folders and links together, folders that are only implied included. */
  readonly filesMax: number;
  /** Of one file; default: `bytesMax`. */
  readonly fileBytesMax?: number;
}

/** Never follows what stands there already, not even a link that was put there a moment ago. */
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * The folder that an archive is unpacked into. It was empty, so that all folders in it are known: an
 * entry whose folder is not one of them, but a link or a file, is refused without asking the disk.
 */
export class ExtractTarget {
  files = 0;
  bytes = 0;
  readonly #dir: string;
  readonly #limits: ExtractLimits;
  readonly #folders = new Set([""]);
  readonly #links = new Set<string>();

  constructor(dir: string, limits: ExtractLimits) {
    this.#dir = dir;
    this.#limits = limits;
  }

  async write(entry: ArchiveEntry): Promise<void> {
    const path = normalizeEntryPath(entry.path);
    if (path === "") {
      if (entry.type === "dir") return;
      throw refusedEntryError(entry.path, "which names the archive itself");
    }
    const folder = posix.dirname(path);
    await this.#ensureFolder(folder === "." ? "" : folder, entry.path);
    if (entry.type === "dir") return await this.#writeFolder(path, entry);
    if (entry.type === "device" || entry.type === "pipe")
      throw refusedEntryError(entry.path, `which is a ${entry.type}`);
    if (entry.type === "unknown")
      throw refusedEntryError(entry.path, "which is of a kind that Berth does not know");
    this.#countFile(entry.path);
    if (this.#folders.has(path))
      throw refusedEntryError(entry.path, "which is a folder elsewhere in it");
    if (entry.type === "file") await this.#writeFile(path, entry);
    else if (entry.type === "symlink") await this.#writeSymlink(path, entry);
    else await this.#writeHardLink(path, entry);
  }

  /** For the end: now that all of them are there, no link may lead out by way of another. */
  async checkLinks(): Promise<void> {
    for (const path of this.#links)
      if (await isEscapingSymlink(this.#dir, path))
        throw refusedEntryError(path, "a link that leads out of it by way of other links");
  }

  async #writeFile(path: string, entry: ArchiveEntry): Promise<void> {
    this.#countBytes(entry.path, entry.size);
    await this.#removeExisting(path);
    const file = await open(join(this.#dir, path), NEW_FILE, 0o600);
    try {
      for await (const chunk of entry.body) await file.writeFile(chunk);
      // Not at its creation, where the umask of this process has a say.
      await file.chmod(((entry.mode ?? 0o644) & 0o777) | 0o600);
    } finally {
      await file.close();
    }
  }

  async #writeFolder(path: string, entry: ArchiveEntry): Promise<void> {
    await this.#ensureFolder(path, entry.path);
    // Whoever unpacks has to be able to write into it, and to remove it.
    await chmod(join(this.#dir, path), ((entry.mode ?? 0o755) & 0o777) | 0o700);
  }

  async #writeSymlink(path: string, entry: ArchiveEntry): Promise<void> {
    if (entry.target === "" || entry.target.includes("\0"))
      throw refusedEntryError(entry.path, "a link that leads nowhere");
    if (leadsOutside(path, entry.target))
      throw refusedEntryError(
        entry.path,
        `a link that leads out of it, to ${JSON.stringify(entry.target.slice(0, 200))}`,
        "replace the link by what it leads to, or leave it out",
      );
    await this.#removeExisting(path);
    await symlink(entry.target, join(this.#dir, path));
    this.#links.add(path);
  }

  async #writeHardLink(path: string, entry: ArchiveEntry): Promise<void> {
    const original = normalizeEntryPath(entry.target);
    if (original === path) return;
    const folder = posix.dirname(original);
    const isInside = this.#folders.has(folder === "." ? "" : folder);
    const state = isInside
      ? await lstat(join(this.#dir, original)).catch(() => undefined)
      : undefined;
    if (state?.isFile() !== true)
      throw refusedEntryError(entry.path, "a hard link to something that is no file of it");
    this.#countBytes(entry.path, state.size);
    await this.#removeExisting(path);
    await link(join(this.#dir, original), join(this.#dir, path));
  }

  /** Makes the folder with those above it. `written` is the entry that wants it. */
  async #ensureFolder(path: string, written: string): Promise<void> {
    if (this.#folders.has(path)) return;
    const parent = posix.dirname(path);
    await this.#ensureFolder(parent === "." ? "" : parent, written);
    this.#countFile(written);
    await mkdir(join(this.#dir, path), 0o755).catch((error: unknown) => {
      if (!(error instanceof Error) || !("code" in error) || error.code !== "EEXIST") throw error;
      const what = this.#links.has(path) ? "a link" : "a file";
      throw refusedEntryError(
        written,
        `which needs ${JSON.stringify(path)} to be a folder, and that is ${what}`,
      );
    });
    this.#folders.add(path);
  }

  /** As with every tar, the last of several entries of one name is the one that counts. */
  async #removeExisting(path: string): Promise<void> {
    this.#links.delete(path);
    await unlink(join(this.#dir, path)).catch((error: unknown) => {
      if (!(error instanceof Error) || !("code" in error) || error.code !== "ENOENT") throw error;
    });
  }

  #countFile(written: string): void {
    this.files += 1;
    if (this.files > this.#limits.filesMax)
      throw refusedEntryError(
        written,
        `with which it has more than ${this.#limits.filesMax} files`,
      );
  }

  #countBytes(written: string, size: number): void {
    const { bytesMax, fileBytesMax = bytesMax } = this.#limits;
    if (size > fileBytesMax)
      throw refusedEntryError(written, `which is larger than ${formatBytes(fileBytesMax)}`);
    this.bytes += size;
    if (this.bytes > bytesMax)
      throw refusedEntryError(
        written,
        `with which its files are larger than ${formatBytes(bytesMax)}`,
      );
  }
}
