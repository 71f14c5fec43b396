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
  /** Relative to the folder, with `/`. */
  readonly path: string;
  readonly type: "file" | "dir" | "symlink";
  /** Permission bits; setuid, setgid and sticky are dropped. */
  readonly mode: number;
  /** Of a file, in bytes; 0 of everything else. */
  readonly size: number;
  /** Of a symlink, as it is written. */
  readonly target?: string;
}

/** A folder as it would be sent to a builder: what is left out is not in it. */
export interface SourceTree {
  readonly dir: string;
  /** Folders before what is in them; names in the order of their code units. */
  readonly entries: readonly SourceEntry[];
  /** Of all files together. */
  readonly bytes: number;
  /** The file whose rules were followed; undefined where the standard rules were. */
  readonly ignoreFile: string | undefined;
  /** Sockets, pipes and devices: a builder has no use for them. */
  readonly skipped: readonly string[];
}

export interface ListSourceOptions {
  readonly bytesMax: number;
  /** Of files, folders and links together. */
  readonly filesMax: number;
  /** Never left out, whatever the rules say; default: each of dockerfileNames. */
  readonly dockerfile?: string | undefined;
  /** `refuse` for an upload: the server takes no archive with links that lead out of it. Default `keep`. */
  readonly outsideLinks?: "keep" | "refuse";
}

/** Rules of this size take no person to write. */
const IGNORE_BYTES_MAX = 64 * 1024;
/** Calls to the file system at a time in one folder: enough to keep it busy, few enough for its threads. */
const STATS_AT_ONCE = 16;
/** Never sent: it holds the history, every deleted secret included. */
const GIT_FOLDER = ".git";

/**
 * Walks a folder as Docker does before it sends a build context. Throws `not_found` where there is no
 * such folder, `payload_too_large` over a limit, and `invalid_request` for what cannot be read or packed,
 * naming it by its path in the folder.
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
  // A link to a folder is as good as the folder: the slash follows it.
  const state = await lstat(join(dir, "/")).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw new BerthError("invalid_request", "the source folder cannot be read", { cause: error });
  });
  if (state?.isDirectory() !== true)
    throw new BerthError("not_found", "there is no such source folder", {
      hint: "check its path; for an archive, unpack it or upload it",
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
  /** Folders that are left out, and show only where something in them is kept. */
  readonly #hidden: SourceEntry[] = [];

  constructor(dir: string, rules: IgnoreRules, options: ListSourceOptions, signal: AbortSignal) {
    this.#dir = dir;
    this.#rules = rules;
    this.#options = options;
    this.#signal = signal;
  }

  async walkFolder(path: string, met: RuleMatches | undefined): Promise<void> {
    const names = (await this.#listNames(path)).filter((name) => name !== GIT_FOLDER);
    for (let at = 0; at < names.length; at += STATS_AT_ONCE) {
      this.#signal.throwIfAborted();
      const seen = names.slice(at, at + STATS_AT_ONCE).map((name) => {
        const full = path === "" ? name : `${path}/${name}`;
        return { path: full, ...this.#rules.check(full, met) };
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
    { path, isIgnored, met }: { path: string; isIgnored: boolean; met: RuleMatches },
    state: Stats,
  ): Promise<void> {
    const entry: SourceEntry = { path, type: "dir", mode: state.mode & 0o777, size: 0 };
    if (!isIgnored) {
      this.#add(entry);
      await this.walkFolder(path, met);
    } else if (this.#rules.canKeepBelow(path)) {
      this.#hidden.push(entry);
      await this.walkFolder(path, met);
      if (this.#hidden.at(-1) === entry) this.#hidden.pop();
    }
  }

  async #addLeaf(path: string, state: Stats): Promise<void> {
    const mode = state.mode & 0o777;
    if (state.isSymbolicLink()) {
      const target = await this.#orUnreadable(path, readlink(join(this.#dir, path)));
      if (this.#options.outsideLinks === "refuse" && leadsOutside(path, target))
        throw new BerthError("invalid_request", `the link ${path} leads out of the folder`, {
          hint: "replace it by what it leads to, or leave it out in .dockerignore",
        });
      this.#add({ path, type: "symlink", mode: 0o777, size: 0, target });
    } else if (state.isFile()) {
      this.bytes += state.size;
      if (this.bytes > this.#options.bytesMax) {
        const limit = formatBytes(this.#options.bytesMax);
        throw new BerthError("payload_too_large", `the source is larger than ${limit}`, {
          hint: `leave out in .dockerignore what the build does not need; the limit was passed at ${path}`,
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
          hint: `leave out in .dockerignore what the build does not need; the limit was passed at ${entry.path}`,
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

  /** Undefined for what went away since its folder was listed. */
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

/** Archives hold names as UTF-8; with other bytes in it, a name would come out as another. */
function decodeName(folder: string, entry: Dirent<Buffer>): string {
  try {
    return decoder.decode(entry.name);
  } catch {
    const shown = JSON.stringify(entry.name.toString("latin1"));
    throw new BerthError(
      "invalid_request",
      `the name ${shown} in ${folder === "" ? "the source folder" : folder} is not UTF-8`,
      { hint: "rename it, or leave its folder out in .dockerignore" },
    );
  }
}

export function unreadableError(path: string, cause: unknown): BerthError {
  const what = path === "" ? "the source folder" : path;
  return new BerthError("invalid_request", `${what} cannot be read`, {
    hint: "make it readable, or leave it out in .dockerignore",
    cause,
  });
}
