import { posix } from "node:path";
import { formatBytes } from "../../base/units.ts";
import { leadsOutside } from "../../source-tree/link-target.ts";
import { type ArchiveEntry, damagedArchiveError } from "./extract-entries.ts";
import { isEscapingSymlink } from "./extract-links.ts";
import { normalizeEntryPath, PATH_BYTES_MAX, refusedEntryError } from "./extract-paths.ts";

export interface ExtractLimits {
  /** The limit for the contents of all files together; hard links count as files. */
  readonly bytesMax: number;
  /** The limit for the number of files, folders and links, including implied folders. */
  readonly filesMax: number;
  /** The limit for one file; default: `bytesMax`. */
  readonly fileBytesMax?: number;
}

/**
 * The limit for the total length of the paths and link targets that are read to follow links. Large repositories stay
 * below a tenth of this length. A malicious archive could otherwise keep the server busy for hours.
 */
const LINK_CHARS_MAX = 100_000_000;

type TreeNode =
  | { readonly type: "dir" }
  | { readonly type: "file"; readonly size: number }
  | { readonly type: "symlink"; readonly target: string };

/** The normalized paths that have to be created for one entry of an archive. */
export interface AcceptedEntry {
  readonly path: string;
  /** The folders that have to be created first, parents before children. */
  readonly folders: readonly string[];
  /** The path of the file that a hard link names. */
  readonly original: string | undefined;
}

/**
 * The tree of files that an archive describes, in memory. It decides which entries may be unpacked. The decision does
 * not depend on the disk, so that an archive that cannot be unpacked is refused at its upload.
 */
export class ArchiveTree {
  files = 0;
  bytes = 0;
  readonly limits: ExtractLimits;
  readonly #nodes = new Map<string, TreeNode>([["", { type: "dir" }]]);

  constructor(limits: ExtractLimits) {
    this.limits = limits;
  }

  /**
   * Adds an entry to the tree. Returns undefined for the root folder, which already exists. Throws `archive_invalid`.
   */
  add(entry: ArchiveEntry): AcceptedEntry | undefined {
    const path = normalizeEntryPath(entry.path);
    if (path === "") {
      if (entry.type === "dir") return undefined;
      throw refusedEntryError(entry.path, "only a folder may be the root of the archive");
    }
    const folders: string[] = [];
    this.#addFolder(parentOf(path), entry.path, folders);
    if (entry.type === "dir") {
      this.#addFolder(path, entry.path, folders);
      return { path, folders, original: undefined };
    }
    if (entry.type === "device" || entry.type === "pipe")
      throw refusedEntryError(entry.path, `an archive must not contain a ${entry.type}`);
    if (entry.type === "unknown")
      throw refusedEntryError(entry.path, "the type of the entry is unknown");
    this.#countFile(entry.path);
    if (this.#nodes.get(path)?.type === "dir")
      throw refusedEntryError(entry.path, "another entry with this path is a folder");
    if (entry.type === "hardlink") return this.#addHardLink(path, entry, folders);
    this.#nodes.set(path, entry.type === "file" ? this.#toFile(entry) : toSymlink(path, entry));
    return { path, folders, original: undefined };
  }

  /** Checks that no link leads out of the tree through another link. Called at the end, when all links are known. */
  checkLinks(): void {
    let charsRead = 0;
    const readTarget = (path: string) => {
      const node = this.#nodes.get(path);
      const target = node?.type === "symlink" ? node.target : undefined;
      charsRead += path.length + (target?.length ?? 0);
      if (charsRead > LINK_CHARS_MAX)
        throw damagedArchiveError("the symbolic links of the archive take too long to follow");
      return target;
    };
    for (const [path, { type }] of this.#nodes)
      if (type === "symlink" && isEscapingSymlink(readTarget, path))
        throw refusedEntryError(path, "the link leads out of the archive through other links");
  }

  #toFile({ path, size }: ArchiveEntry): TreeNode {
    this.#countBytes(path, size);
    return { type: "file", size };
  }

  #addHardLink(
    path: string,
    entry: ArchiveEntry,
    folders: readonly string[],
  ): AcceptedEntry | undefined {
    const original = normalizeEntryPath(entry.target);
    if (original === path) return undefined;
    const node = this.#nodes.get(original);
    if (node?.type !== "file")
      throw refusedEntryError(
        entry.path,
        "the target of the hard link is not a file of the archive",
      );
    this.#countBytes(entry.path, node.size);
    this.#nodes.set(path, node);
    return { path, folders, original };
  }

  /** Adds a folder and its parents. `written` is the path of the archive entry inside the folder, for messages. */
  #addFolder(path: string, written: string, added: string[]): void {
    const type = this.#nodes.get(path)?.type;
    if (type === "dir") return;
    this.#addFolder(parentOf(path), written, added);
    this.#countFile(written);
    if (type !== undefined) {
      const what = type === "symlink" ? "a link" : "a file";
      throw refusedEntryError(
        written,
        `${JSON.stringify(path)} has to be a folder, but is ${what}`,
      );
    }
    this.#nodes.set(path, { type: "dir" });
    added.push(path);
  }

  #countFile(written: string): void {
    this.files += 1;
    if (this.files > this.limits.filesMax)
      throw refusedEntryError(written, `the archive has more than ${this.limits.filesMax} files`);
  }

  #countBytes(written: string, size: number): void {
    const { bytesMax, fileBytesMax = bytesMax } = this.limits;
    if (size > fileBytesMax)
      throw refusedEntryError(written, `the file is larger than ${formatBytes(fileBytesMax)}`);
    this.bytes += size;
    if (this.bytes > bytesMax)
      throw refusedEntryError(
        written,
        `the files of the archive are larger than ${formatBytes(bytesMax)} together`,
      );
  }
}

function toSymlink(path: string, entry: ArchiveEntry): TreeNode {
  const { target } = entry;
  if (Buffer.byteLength(target) > PATH_BYTES_MAX)
    throw refusedEntryError(
      entry.path,
      `the target of the link is longer than ${PATH_BYTES_MAX} bytes`,
    );
  if (target === "" || target.includes("\0"))
    throw refusedEntryError(entry.path, "the link has no target");
  if (leadsOutside(path, target))
    throw refusedEntryError(
      entry.path,
      `the link leads out of the archive, to ${JSON.stringify(target.slice(0, 200))}`,
      "replace the link with its target, or exclude the link",
    );
  return { type: "symlink", target };
}

function parentOf(path: string): string {
  const parent = posix.dirname(path);
  return parent === "." ? "" : parent;
}
