import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { BerthError } from "../base/errors.ts";
import { formatBytes } from "../base/units.ts";
import { dockerfileNames } from "./dockerfile-names.ts";
import { IgnoreRules, type RuleMatches } from "./ignore-rules.ts";
import { leadsOutside } from "./link-target.ts";
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
  await assertFolder(dir);
  const { dockerfile } = options;
  const { rules, ignoreFile } = await readRules(dir, dockerfile ?? "Dockerfile");
  const kept = dockerfile === undefined ? dockerfileNames : [dockerfile];
  const walker = new SourceWalker(
    dir,
    rules.withExceptions([".dockerignore", ...kept]),
    options,
    signal,
  );
  await walker.walkFolder("", undefined);
  return { dir, ignoreFile, entries: walker.entries, bytes: walker.bytes, skipped: walker.skipped };
}

async function assertFolder(dir: string): Promise<void> {
  // The slash at the end of the path makes lstat follow a symbolic link to a folder.
  const state = await lstat(join(dir, "/")).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw new BerthError("invalid_request", "the source folder cannot be read", { cause: error });
  });
  if (state?.isDirectory() !== true)
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

class SourceWalker {
  readonly entries: SourceEntry[] = [];
  readonly skipped: string[] = [];
  bytes = 0;
  readonly #dir: string;
  readonly #rules: IgnoreRules;
  readonly #options: ListSourceOptions;
  readonly #signal: AbortSignal;
  /**
   * The ignored folders around the present one. They are read because an exception may include something below them,
   * and are added to `entries` as soon as one does.
   */
  readonly #hidden: SourceEntry[] = [];

  constructor(dir: string, rules: IgnoreRules, options: ListSourceOptions, signal: AbortSignal) {
    this.#dir = dir;
    this.#rules = rules;
    this.#options = options;
    this.#signal = signal;
  }

  async walkFolder(path: string, matches: RuleMatches | undefined): Promise<void> {
    const names = (await this.#listNames(path)).filter((name) => name !== GIT_FOLDER);
    for (let at = 0; at < names.length; at += STATS_AT_ONCE) {
      this.#signal.throwIfAborted();
      const seen = names.slice(at, at + STATS_AT_ONCE).map((name) => {
        const full = path === "" ? name : `${path}/${name}`;
        return { path: full, ...this.#rules.check(full, matches) };
      });
      const states = await Promise.all(seen.map((it) => this.#readStats(it.path)));
      for (const [index, it] of seen.entries()) {
        const state = states[index];
        if (state === undefined) continue;
        if (state.isDirectory()) await this.#walkSubfolder(it, state);
        else if (!it.isIgnored) await this.#addLeaf(it.path, state);
      }
    }
  }

  async #walkSubfolder(
    { path, isIgnored, matches }: { path: string; isIgnored: boolean; matches: RuleMatches },
    state: Stats,
  ): Promise<void> {
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

  async #addLeaf(path: string, state: Stats): Promise<void> {
    const mode = state.mode & 0o777;
    if (state.isSymbolicLink()) {
      const target = await this.#orUnreadable(path, readlink(join(this.#dir, path)));
      if (this.#options.outsideLinks === "refuse" && leadsOutside(path, target))
        throw new BerthError(
          "invalid_request",
          `the target of the link ${path} is outside the folder`,
          {
            hint: "replace the link by its target, or add it to .dockerignore",
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

  async #listNames(path: string): Promise<string[]> {
    const listed = await this.#orUnreadable(
      path,
      readdir(join(this.#dir, path), { withFileTypes: true, encoding: "buffer" }),
    );
    return listed.map((entry) => decodeName(path, entry)).toSorted();
  }

  /** Returns the entry's stats; undefined if it was deleted after its folder was listed. */
  async #readStats(path: string): Promise<Stats | undefined> {
    return lstat(join(this.#dir, path)).catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw unreadableError(path, error);
    });
  }

  async #orUnreadable<T>(path: string, work: Promise<T>): Promise<T> {
    return work.catch((error: unknown) => {
      throw unreadableError(path, error);
    });
  }
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
