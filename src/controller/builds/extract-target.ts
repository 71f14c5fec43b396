import { constants } from "node:fs";
import { chmod, link, lstat, mkdir, open, symlink, unlink } from "node:fs/promises";
import { join, posix } from "node:path";
import { getErrorCode } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import { leadsOutside } from "../../source-tree/link-target.ts";
import type { ArchiveEntry } from "./extract-entries.ts";
import { isEscapingSymlink } from "./extract-links.ts";
import { normalizeEntryPath, refusedEntryError } from "./extract-paths.ts";

export interface ExtractLimits {
  /** The limit for the contents of all files together; hard links count as files. */
  readonly bytesMax: number;
  /** The limit for the number of files, folders and links, including implied folders. */
  readonly filesMax: number;
  /** The limit for one file; default: `bytesMax`. */
  readonly fileBytesMax?: number;
}

/** Never follows or overwrites an existing file, not even a link that was created a moment ago. */
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * The folder that an archive is unpacked into. It was empty, so that all folders in it are known: an entry below
 * anything else than a known folder is refused without reading the disk.
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
      throw refusedEntryError(entry.path, "which is the root of the archive");
    }
    const folder = posix.dirname(path);
    await this.#ensureFolder(folder === "." ? "" : folder, entry.path);
    if (entry.type === "dir") return await this.#writeFolder(path, entry);
    if (entry.type === "device" || entry.type === "pipe")
      throw refusedEntryError(entry.path, `which is a ${entry.type}`);
    if (entry.type === "unknown")
      throw refusedEntryError(entry.path, "which is of an unknown type");
    this.#countFile(entry.path);
    if (this.#folders.has(path))
      throw refusedEntryError(entry.path, "which is a folder in another entry");
    if (entry.type === "file") await this.#writeFile(path, entry);
    else if (entry.type === "symlink") await this.#writeSymlink(path, entry);
    else await this.#writeHardLink(path, entry);
  }

  /** Checks at the end, when all links exist, that none leads out of the folder through another one. */
  async checkLinks(): Promise<void> {
    for (const path of this.#links)
      if (await isEscapingSymlink(this.#dir, path))
        throw refusedEntryError(path, "a link that leads out of it through other links");
  }

  async #writeFile(path: string, entry: ArchiveEntry): Promise<void> {
    this.#countBytes(entry.path, entry.size);
    await this.#removeExisting(path);
    const file = await open(join(this.#dir, path), NEW_FILE, 0o600);
    try {
      for await (const chunk of entry.body) await file.writeFile(chunk);
      // chmod, because the process's umask applies to the mode of a new file.
      await file.chmod(((entry.mode ?? 0o644) & 0o777) | 0o600);
    } finally {
      await file.close();
    }
  }

  async #writeFolder(path: string, entry: ArchiveEntry): Promise<void> {
    await this.#ensureFolder(path, entry.path);
    // Berth must be able to write into the folder and to remove it.
    await chmod(join(this.#dir, path), ((entry.mode ?? 0o755) & 0o777) | 0o700);
  }

  async #writeSymlink(path: string, entry: ArchiveEntry): Promise<void> {
    if (entry.target === "" || entry.target.includes("\0"))
      throw refusedEntryError(entry.path, "a link without a target");
    if (leadsOutside(path, entry.target))
      throw refusedEntryError(
        entry.path,
        `a link that leads out of it, to ${JSON.stringify(entry.target.slice(0, 200))}`,
        "replace the link by its target, or exclude it",
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
      throw refusedEntryError(
        entry.path,
        "a hard link to something that is not a file of the archive",
      );
    this.#countBytes(entry.path, state.size);
    await this.#removeExisting(path);
    await link(join(this.#dir, original), join(this.#dir, path));
  }

  /** Creates a folder and its parents. `written` is the entry that needs it. */
  async #ensureFolder(path: string, written: string): Promise<void> {
    if (this.#folders.has(path)) return;
    const parent = posix.dirname(path);
    await this.#ensureFolder(parent === "." ? "" : parent, written);
    this.#countFile(written);
    await mkdir(join(this.#dir, path), 0o755).catch((error: unknown) => {
      if (getErrorCode(error) !== "EEXIST") throw error;
      const what = this.#links.has(path) ? "a link" : "a file";
      throw refusedEntryError(
        written,
        `which needs ${JSON.stringify(path)} to be a folder, but that is ${what}`,
      );
    });
    this.#folders.add(path);
  }

  /** The last of several entries with one name wins, as with every tar program. */
  async #removeExisting(path: string): Promise<void> {
    this.#links.delete(path);
    await unlink(join(this.#dir, path)).catch((error: unknown) => {
      if (getErrorCode(error) !== "ENOENT") throw error;
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
