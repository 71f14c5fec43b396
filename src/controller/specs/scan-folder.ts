import { type BigIntStats, type Dirent, stat } from "node:fs";
import { readdir, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { getErrorCode } from "../../base/errors.ts";
import { isHidden, isSpecFileName } from "./file-names.ts";

/** The content of the folder at one moment, without the texts of the files. */
export type FolderScan = PresentFolder | AbsentFolder;

export interface AbsentFolder {
  readonly state: "missing" | "unreadable";
  /** A message for the user; contains no path of this machine. */
  readonly message: string;
}

export interface FolderLocation {
  /** The real path of the folder, with every link resolved. */
  readonly realpath: string;
  /** Identifies the folder. A new folder with the same path has another identity. */
  readonly identity: string;
  /**
   * The device number (`st_dev`) of each folder's file system, which shows if another file system was mounted on the
   * folder. The key is the path of the folder; `""` is the watched folder.
   */
  readonly folders: ReadonlyMap<string, bigint>;
}

export interface PresentFolder extends FolderLocation {
  readonly state: "present";
  /** The files, sorted by their paths below the folder, with `/` as separator. */
  readonly files: ReadonlyMap<string, ScannedFile>;
  /** Folders that cannot be read, with the reason. Files below them do not count as removed. */
  readonly unknown: ReadonlyMap<string, string>;
}

export interface ScannedFile {
  /** If the stamp is equal, the file is unchanged, as far as the file system can tell. */
  readonly stamp: string;
  /** The reason why the file cannot be read; absent if it can. */
  readonly problem?: string;
}

/** The limit of entries, far more than any set of specs has. */
const ENTRIES_MAX = 50_000;
/**
 * The limit of entries behind one link. If a link leads to a disk or a home folder, it is not read, but the other
 * files are.
 */
const LINKED_ENTRIES_MAX = 10_000;
const DEPTH_MAX = 32;

/**
 * Finds the spec files in `folder` and its subfolders, or the reason why the folder cannot be read. Rejects only when
 * `signal` aborts.
 */
export async function scanFolder(folder: string, signal: AbortSignal): Promise<FolderScan> {
  let root: string;
  let rootStats: BigIntStats;
  try {
    root = await realpath(folder);
    rootStats = await readStats(root);
  } catch (error) {
    return toAbsentFolder(error);
  }
  if (!rootStats.isDirectory())
    return { state: "missing", message: "the path leads to a file, not a folder" };

  const walk = new FolderWalk(root, await listParentIdentities(root), signal);
  const failure = await walk.enter("", rootStats);
  if (failure !== undefined) return toAbsentFolder(failure);
  if (walk.isTooLarge) {
    return {
      state: "unreadable",
      message: `the folder contains more than ${ENTRIES_MAX} files and folders`,
    };
  }
  const files = new Map([...walk.files].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  return {
    state: "present",
    realpath: root,
    // Inode numbers of deleted folders are reused immediately, so the creation time is part of the identity.
    identity: `${rootStats.dev}:${rootStats.ino}:${rootStats.birthtimeNs}:${root}`,
    files,
    folders: walk.folders,
    unknown: walk.unknown,
  };
}

class FolderWalk {
  readonly files = new Map<string, ScannedFile>();
  readonly folders = new Map<string, bigint>();
  readonly unknown = new Map<string, string>();
  readonly #root: string;
  /** The folders above the watched folder. */
  readonly #parents: ReadonlySet<string>;
  readonly #signal: AbortSignal;
  /**
   * The real folders that were read. Each one is read once, even if several links lead to it, which also ends loops.
   */
  readonly #seen = new Set<string>();
  #entries = 0;
  #entriesMax = ENTRIES_MAX;

  constructor(root: string, parents: ReadonlySet<string>, signal: AbortSignal) {
    this.#root = root;
    this.#parents = parents;
    this.#signal = signal;
  }

  get isTooLarge(): boolean {
    return this.#entries > this.#entriesMax;
  }

  /**
   * Adds the entries of a folder to the scan. Returns the reason why the folder cannot be read; undefined if it can.
   */
  async enter(path: string, stats: BigIntStats): Promise<unknown> {
    const identity = identify(stats);
    if (this.#seen.has(identity)) return undefined;
    this.#seen.add(identity);
    let entries: Dirent[];
    try {
      entries = await readdir(join(this.#root, path), { withFileTypes: true });
    } catch (error) {
      return error ?? new Error("unknown");
    }
    this.#signal.throwIfAborted();
    this.folders.set(path, stats.dev);
    this.#entries += entries.length;
    if (this.isTooLarge) return undefined;

    const folders: [path: string, stats: BigIntStats, isLink: boolean][] = [];
    await Promise.all(
      entries.map(async (entry) => {
        const mayBeFolder = entry.isDirectory() || entry.isSymbolicLink();
        if (isHidden(entry.name) || !(mayBeFolder || isSpecFileName(entry.name))) return;
        const below = path === "" ? entry.name : `${path}/${entry.name}`;
        try {
          const found = await readStats(join(this.#root, below));
          if (found.isDirectory()) folders.push([below, found, entry.isSymbolicLink()]);
          else if (found.isFile() && isSpecFileName(entry.name))
            this.files.set(below, toScannedFile(found));
        } catch (error) {
          this.#recordUnreadable(below, entry, error);
        }
      }),
    );
    for (const [below, found, isLink] of folders.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (this.isTooLarge) return undefined;
      if (below.split("/").length > DEPTH_MAX) {
        this.unknown.set(below, `nested deeper than ${DEPTH_MAX} folders`);
        continue;
      }
      const failure = await (isLink ? this.#enterLink(below, found) : this.enter(below, found));
      if (failure !== undefined) this.unknown.set(below, describeReadError(failure));
    }
    return undefined;
  }

  /** Reads a linked folder completely or not at all. */
  async #enterLink(path: string, stats: BigIntStats): Promise<unknown> {
    if (this.#parents.has(identify(stats))) {
      this.unknown.set(path, "a link to a folder that contains the link itself");
      return undefined;
    }
    const entriesBefore = this.#entries;
    const outerMax = this.#entriesMax;
    this.#entriesMax = Math.min(outerMax, entriesBefore + LINKED_ENTRIES_MAX);
    const failure = await this.enter(path, stats);
    const isTooLarge = this.isTooLarge;
    this.#entriesMax = outerMax;
    if (!isTooLarge) return failure;
    this.#entries = entriesBefore;
    for (const found of [this.files, this.folders, this.unknown])
      for (const key of found.keys())
        if (key === path || key.startsWith(`${path}/`)) found.delete(key);
    this.unknown.set(
      path,
      `a link to a folder with more than ${LINKED_ENTRIES_MAX} files and folders`,
    );
    return undefined;
  }

  /**
   * Records an entry that could not be read, so that its resources do not count as missing. Ignores an entry that has
   * been deleted meanwhile, unless it is a link, whose missing target may come back.
   */
  #recordUnreadable(path: string, entry: Dirent, error: unknown): void {
    if (getErrorCode(error) === "ENOENT" && !entry.isSymbolicLink()) return;
    if (isSpecFileName(entry.name)) {
      const problem =
        getErrorCode(error) === "ENOENT" ? "a link without a target" : describeReadError(error);
      this.files.set(path, { stamp: `problem:${getErrorCode(error) ?? "unknown"}`, problem });
    } else {
      this.unknown.set(path, describeReadError(error));
    }
  }
}

function identify({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

async function listParentIdentities(root: string): Promise<ReadonlySet<string>> {
  const parents = new Set<string>();
  for (let path = root; dirname(path) !== path; ) {
    path = dirname(path);
    // A parent folder whose stats this user may not read is left out: the scan could not follow a link to it either.
    const stats = await readStats(path).catch(() => undefined);
    if (stats) parents.add(identify(stats));
  }
  return parents;
}

/**
 * Reads the stats of a file. This takes a third of the time of stat from node:fs/promises, and a folder may have a
 * thousand files.
 */
function readStats(path: string): Promise<BigIntStats> {
  return new Promise((resolve, reject) => {
    stat(path, { bigint: true }, (error, stats) => (error ? reject(error) : resolve(stats)));
  });
}

function toScannedFile(stats: BigIntStats): ScannedFile {
  const { dev, ino, size, mtimeNs, ctimeNs } = stats;
  return { stamp: `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}` };
}

function toAbsentFolder(error: unknown): AbsentFolder {
  const code = getErrorCode(error);
  if (code === "ENOENT" || code === "ENOTDIR") {
    return { state: "missing", message: "there is no such folder" };
  }
  return { state: "unreadable", message: describeReadError(error) };
}

/** Returns the reason of a read error without the path, because clients of the API can read the reason. */
export function describeReadError(error: unknown): string {
  const code = getErrorCode(error);
  switch (code) {
    case "EACCES":
    case "EPERM":
      return "Berth may not read the file or folder";
    case "ELOOP":
      return "the links on the path form a circle";
    case "ENOENT":
      return "a link without a target";
    default:
      return `reading failed (${code ?? "unknown"})`;
  }
}
