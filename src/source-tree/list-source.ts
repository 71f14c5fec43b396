import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, readlink, realpath } from "node:fs/promises";
import { join } from "node:path";
import { BerthError } from "../base/errors.ts";
import { formatBytes } from "../base/units.ts";
import { dockerfileNames } from "./dockerfile-names.ts";
import { IgnoreRules, type RuleMatches } from "./ignore-rules.ts";
import { leadsOutside } from "./link-target.ts";
import { getFolderPath, openInside } from "./open-inside.ts";
import { isMissing, readInside } from "./read-inside.ts";

export interface SourceEntry {
  /** The path relative to the listed folder, with `/` as separator. */
  readonly path: string;
  readonly type: "file" | "dir" | "symlink";
  /** Permission bits of the entry, without setuid, setgid and sticky. */
  readonly mode: number;
  /** The size of a file in bytes; 0 for folders and links. */
  readonly size: number;
  /** The target of a symlink, exactly as the link contains it. */
  readonly target?: string;
}

/** The files of a folder that are sent to a builder. Ignored files are not included. */
export interface SourceTree {
  /** The real path of the folder, without links. */
  readonly dir: string;
  /** Folders precede their contents; names are sorted by code units. */
  readonly entries: readonly SourceEntry[];
  /** The total size of all files in bytes. */
  readonly bytes: number;
  /** The name of the file whose ignore rules were applied; undefined for the default rules. */
  readonly ignoreFile: string | undefined;
  /** The paths of sockets, pipes and devices, which are left out because a builder cannot use them. */
  readonly skipped: readonly string[];
}

export interface ListSourceOptions {
  readonly bytesMax: number;
  /** The maximum number of files, folders and links together. */
  readonly filesMax: number;
  /** The path of the Dockerfile, which is never ignored; by default, no file in dockerfileNames is ignored. */
  readonly dockerfile?: string | undefined;
  /**
   * The treatment of links whose targets are outside the folder. An upload uses `refuse`, because the server rejects
   * archives with such links. Default: `keep`.
   */
  readonly outsideLinks?: "keep" | "refuse";
  /**
   * Called with the real path of the folder before anything in it is read. Throws if the folder must not be read. Only
   * this folder is read afterwards, whatever replaces it.
   */
  readonly checkDir?: (dir: string) => void;
}

/** Largest size of a file with ignore rules, far above any reasonable one. */
const IGNORE_BYTES_MAX = 64 * 1024;
/** The number of concurrent calls to the file system. It keeps the file system busy without occupying all threads. */
const STATS_AT_ONCE = 16;
/** The folder that is never sent, because it contains the whole history, including deleted secrets. */
const GIT_FOLDER = ".git";

/**
 * Lists a folder as Docker does for a build context. Throws `not_found` if the folder does not exist,
 * `payload_too_large` if a limit is exceeded, and `invalid_request`, with the path, for an entry that cannot be read
 * or packed.
 */
export async function listSource(
  dir: string,
  options: ListSourceOptions,
  signal: AbortSignal,
): Promise<SourceTree> {
  const real = await resolveFolder(dir);
  const { dockerfile, checkDir } = options;
  checkDir?.(real);
  const { rules, ignoreFile } = await readRules(real, dockerfile ?? "Dockerfile");
  const kept = dockerfile === undefined ? dockerfileNames : [dockerfile];
  const walker = new SourceWalker(
    real,
    rules.withExceptions([".dockerignore", ...kept]),
    options,
    signal,
  );
  await walker.walkFolder("", undefined);
  const { entries, bytes, skipped } = walker;
  return { dir: real, ignoreFile, entries, bytes, skipped };
}

async function resolveFolder(dir: string): Promise<string> {
  try {
    const real = await realpath(dir);
    if ((await lstat(real)).isDirectory()) return real;
  } catch (error) {
    if (!isMissing(error))
      throw new BerthError("invalid_request", "the source folder cannot be read", { cause: error });
  }
  throw new BerthError("not_found", "there is no such source folder", {
    hint: "check the path of the folder; for an archive, unpack it or upload it",
  });
}

async function readRules(
  dir: string,
  dockerfile: string,
): Promise<{ rules: IgnoreRules; ignoreFile: string | undefined }> {
  for (const file of [`${dockerfile}.dockerignore`, ".dockerignore"]) {
    const text = await readInside(dir, file, IGNORE_BYTES_MAX);
    if (text !== undefined) return { rules: IgnoreRules.parse(text, file), ignoreFile: file };
  }
  return { rules: IgnoreRules.createDefault(), ignoreFile: undefined };
}

/** An entry of a folder that the walker has read. */
interface Child {
  readonly path: string;
  readonly state: Stats;
  /** The target of a symlink. */
  readonly target: string | undefined;
  readonly isIgnored: boolean;
  readonly matches: RuleMatches;
}

class SourceWalker {
  readonly entries: SourceEntry[] = [];
  readonly skipped: string[] = [];
  bytes = 0;
  readonly #dir: string;
  readonly #rules: IgnoreRules;
  readonly #options: ListSourceOptions;
  readonly #signal: AbortSignal;
  /**
   * The ignored folders that contain the present one. They are read because an exception may include something below
   * them, and are added to `entries` as soon as one does.
   */
  readonly #hidden: SourceEntry[] = [];

  constructor(dir: string, rules: IgnoreRules, options: ListSourceOptions, signal: AbortSignal) {
    this.#dir = dir;
    this.#rules = rules;
    this.#options = options;
    this.#signal = signal;
  }

  async walkFolder(path: string, matches: RuleMatches | undefined): Promise<void> {
    // The folder is closed before its subfolders are opened, because a tree may be deeper than the number of files that
    // a process may open.
    for (const child of await this.#readFolder(path, matches)) {
      if (child.state.isDirectory()) await this.#walkSubfolder(child);
      else this.#addLeaf(child);
    }
  }

  async #readFolder(path: string, matches: RuleMatches | undefined): Promise<Child[]> {
    await using folder = await this.#orUnreadable(path, openInside(this.#dir, path));
    const at = getFolderPath(folder, this.#dir, path);
    const names = (await this.#listNames(path, at)).filter((name) => name !== GIT_FOLDER);
    const found: Child[] = [];
    for (let start = 0; start < names.length; start += STATS_AT_ONCE) {
      this.#signal.throwIfAborted();
      const read = names.slice(start, start + STATS_AT_ONCE).map(async (name) => {
        const full = path === "" ? name : `${path}/${name}`;
        const file = join(at, name);
        const state = await this.#orUnreadable(full, lstatIfExists(file));
        if (state === undefined) return undefined;
        const target = state.isSymbolicLink()
          ? await this.#orUnreadable(full, readlink(file))
          : undefined;
        return { path: full, state, target, ...this.#rules.check(full, matches) };
      });
      for (const child of await Promise.all(read))
        if (child && (child.state.isDirectory() || !child.isIgnored)) found.push(child);
    }
    return found;
  }

  async #walkSubfolder({ path, state, isIgnored, matches }: Child): Promise<void> {
    const entry: SourceEntry = { path, type: "dir", mode: state.mode & 0o777, size: 0 };
    if (!isIgnored) {
      this.#add(entry);
      await this.walkFolder(path, matches);
    } else if (this.#rules.canKeepBelow(path)) {
      this.#hidden.push(entry);
      await this.walkFolder(path, matches);
      if (this.#hidden.at(-1) === entry) this.#hidden.pop();
    }
  }

  #addLeaf({ path, state, target }: Child): void {
    const mode = state.mode & 0o777;
    if (target !== undefined) {
      if (this.#options.outsideLinks === "refuse" && leadsOutside(path, target))
        throw new BerthError(
          "invalid_request",
          `the target of the link ${path} is outside the folder`,
          {
            hint: "replace the link with its target, or add it to .dockerignore",
          },
        );
      this.#add({ path, type: "symlink", mode: 0o777, size: 0, target });
    } else if (state.isFile()) {
      this.bytes += state.size;
      if (this.bytes > this.#options.bytesMax) {
        const limit = formatBytes(this.#options.bytesMax);
        throw new BerthError("payload_too_large", `the source is larger than ${limit}`, {
          hint: `add files that the build does not need to .dockerignore; the limit was exceeded at ${path}`,
        });
      }
      this.#add({ path, type: "file", mode, size: state.size });
    } else this.skipped.push(path);
  }

  #add(entry: SourceEntry): void {
    this.entries.push(...this.#hidden.splice(0), entry);
    if (this.entries.length > this.#options.filesMax)
      throw new BerthError(
        "payload_too_large",
        `the source has more than ${this.#options.filesMax} files`,
        {
          hint: `add files that the build does not need to .dockerignore; the limit was exceeded at ${entry.path}`,
        },
      );
  }

  async #listNames(path: string, at: string): Promise<string[]> {
    const listed = await this.#orUnreadable(
      path,
      readdir(at, { withFileTypes: true, encoding: "buffer" }),
    );
    return listed.map((entry) => decodeName(path, entry)).toSorted();
  }

  async #orUnreadable<T>(path: string, work: Promise<T>): Promise<T> {
    return work.catch((error: unknown) => {
      throw error instanceof BerthError ? error : unreadableError(path, error);
    });
  }
}

/** Returns the stats of an entry; undefined if it was deleted after its folder was listed. */
async function lstatIfExists(file: string): Promise<Stats | undefined> {
  return lstat(file).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes a file name. Throws if the name is not UTF-8, because an archive could not preserve it. */
function decodeName(folder: string, entry: Dirent<Buffer>): string {
  try {
    return decoder.decode(entry.name);
  } catch {
    const shown = JSON.stringify(entry.name.toString("latin1"));
    throw new BerthError(
      "invalid_request",
      `the name ${shown} in ${folder === "" ? "the source folder" : folder} is not UTF-8`,
      { hint: "rename the file, or add its folder to .dockerignore" },
    );
  }
}

export function unreadableError(path: string, cause: unknown): BerthError {
  const what = path === "" ? "the source folder" : path;
  return new BerthError("invalid_request", `${what} cannot be read`, {
    hint: "make the file readable, or add it to .dockerignore",
    cause,
  });
}
