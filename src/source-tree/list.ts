import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { BerthError } from "../base/errors.ts";
import { formatBytes } from "../base/units.ts";
import { dockerfileNames } from "./dockerfile-names.ts";
import { IgnoreRules, type RulesMet } from "./ignore-rules.ts";
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

export interface ListOptions {
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
const history = ".git";

/**
 * Walks a folder as Docker does before it sends a build context. Throws `not_found` where there is no
 * such folder, `payload_too_large` over a limit, and `invalid_request` for what cannot be read or packed,
 * naming it by its path in the folder.
 */
export async function listSource(
  dir: string,
  options: ListOptions,
  signal: AbortSignal,
): Promise<SourceTree> {
  await requireFolder(dir);
  const { dockerfile } = options;
  const { rules, ignoreFile } = await readRules(dir, dockerfile ?? "Dockerfile");
  const kept = dockerfile === undefined ? dockerfileNames : [dockerfile];
  const walk = new Walk(dir, rules.keeping([".dockerignore", ...kept]), options, signal);
  await walk.folder("", undefined);
  return { dir, ignoreFile, entries: walk.entries, bytes: walk.bytes, skipped: walk.skipped };
}

async function requireFolder(dir: string): Promise<void> {
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
  return { rules: IgnoreRules.standard(), ignoreFile: undefined };
}

class Walk {
  readonly entries: SourceEntry[] = [];
  readonly skipped: string[] = [];
  bytes = 0;
  readonly #dir: string;
  readonly #rules: IgnoreRules;
  readonly #options: ListOptions;
  readonly #signal: AbortSignal;
  /** Folders that are left out, and show only where something in them is kept. */
  readonly #hidden: SourceEntry[] = [];

  constructor(dir: string, rules: IgnoreRules, options: ListOptions, signal: AbortSignal) {
    this.#dir = dir;
    this.#rules = rules;
    this.#options = options;
    this.#signal = signal;
  }

  async folder(path: string, met: RulesMet | undefined): Promise<void> {
    const names = (await this.#namesIn(path)).filter((name) => name !== history);
    for (let at = 0; at < names.length; at += STATS_AT_ONCE) {
      this.#signal.throwIfAborted();
      const seen = names.slice(at, at + STATS_AT_ONCE).map((name) => {
        const full = path === "" ? name : `${path}/${name}`;
        return { path: full, ...this.#rules.look(full, met) };
      });
      const states = await Promise.all(seen.map((it) => this.#stateOf(it.path)));
      for (const [index, it] of seen.entries()) {
        const state = states[index];
        if (state === undefined) continue;
        if (state.isDirectory()) await this.#subfolder(it, state);
        else if (!it.isIgnored) await this.#leaf(it.path, state);
      }
    }
  }

  async #subfolder(
    { path, isIgnored, met }: { path: string; isIgnored: boolean; met: RulesMet },
    state: Stats,
  ): Promise<void> {
    const entry: SourceEntry = { path, type: "dir", mode: state.mode & 0o777, size: 0 };
    if (!isIgnored) {
      this.#add(entry);
      await this.folder(path, met);
    } else if (this.#rules.mayKeepBelow(path)) {
      this.#hidden.push(entry);
      await this.folder(path, met);
      if (this.#hidden.at(-1) === entry) this.#hidden.pop();
    }
  }

  async #leaf(path: string, state: Stats): Promise<void> {
    const mode = state.mode & 0o777;
    if (state.isSymbolicLink()) {
      const target = await this.#guard(path, readlink(join(this.#dir, path)));
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

  async #namesIn(path: string): Promise<string[]> {
    const listed = await this.#guard(
      path,
      readdir(join(this.#dir, path), { withFileTypes: true, encoding: "buffer" }),
    );
    return listed.map((entry) => nameOf(path, entry)).toSorted();
  }

  /** Undefined for what went away since its folder was listed. */
  async #stateOf(path: string): Promise<Stats | undefined> {
    return lstat(join(this.#dir, path)).catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw unreadable(path, error);
    });
  }

  async #guard<T>(path: string, work: Promise<T>): Promise<T> {
    return work.catch((error: unknown) => {
      throw unreadable(path, error);
    });
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Archives hold names as UTF-8; with other bytes in it, a name would come out as another. */
function nameOf(folder: string, entry: Dirent<Buffer>): string {
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

export function unreadable(path: string, cause: unknown): BerthError {
  const what = path === "" ? "the source folder" : path;
  return new BerthError("invalid_request", `${what} cannot be read`, {
    hint: "make it readable, or leave it out in .dockerignore",
    cause,
  });
}
