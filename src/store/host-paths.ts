import { realpathSync, statfsSync, statSync } from "node:fs";
import { dirname, join, parse, relative, resolve, sep } from "node:path";
import { findUntrustedStep, listPathSteps, type PathStep } from "../base/path-trust.ts";

export interface HostPathOptions {
  /** The data directory of Berth. No App can mount this folder, a path in it, or a folder that contains it. */
  readonly dataDir: string;
  /** Folders that writers without the scope `admin` may mount, including everything in these folders. */
  readonly allowed?: readonly string[];
  /**
   * Folders that were allowed earlier. Apps may still mount a path in such a folder, so the path must not lead out of
   * the folder.
   */
  readonly formerlyAllowed?: readonly string[];
  /**
   * Folders that writers without the scope `admin` may never mount, even inside an allowed folder, because their
   * content is trusted.
   */
  readonly reserved?: readonly string[];
  /** The user who runs Berth. */
  readonly userId?: number;
}

/**
 * Decides which paths of the machine may be mounted. A check follows the symbolic links in their present state. A path
 * is therefore checked when a spec is written, and again at each start of a container.
 */
export class HostPaths {
  readonly #dataDir: string;
  readonly #allowed: readonly string[];
  readonly #confining: readonly string[];
  readonly #reserved: readonly string[];
  readonly #userId: number;

  constructor(options: HostPathOptions) {
    const { dataDir, allowed = [], formerlyAllowed = [], reserved = [] } = options;
    this.#dataDir = resolve(dataDir);
    this.#allowed = allowed.map((folder) => resolve(folder));
    this.#confining = [...this.#allowed, ...formerlyAllowed.map((folder) => resolve(folder))];
    this.#reserved = reserved.map((folder) => resolve(folder));
    this.#userId = options.userId ?? process.getuid?.() ?? 0;
  }

  /**
   * Returns true if the path, as it is written, is in an allowed folder. Use `findEscape` to check if a link on
   * the path leads out of this folder.
   */
  isAllowed(path: string): boolean {
    return this.#allowed.some((folder) => isWithin(folder, resolve(path)));
  }

  /**
   * True if the path is, or was, in an allowed folder, so that a writer without the scope `admin` may have chosen it.
   */
  isConfined(path: string): boolean {
    return this.#confining.some((folder) => isWithin(folder, resolve(path)));
  }

  /**
   * Returns why no writer may mount or build the path, as the end of a sentence that begins with the path; undefined
   * for every other path.
   */
  findProtected(path: string): string | undefined {
    if (leadsThroughProcesses(path))
      return "leads through /proc, whose processes reach every folder, the data directory of Berth included";
    const places = [resolve(path), followLinks(path)];
    const own = [this.#dataDir, followLinks(this.#dataDir)];
    const isSame = places.some((place) => own.includes(place));
    const isAround = places.some((place) => own.some((folder) => isWithin(place, folder)));
    const isInside = places.some((place) => own.some((folder) => isWithin(folder, place)));
    if (isSame) return "is the data directory of Berth";
    // A bind mount can give the same folder another path, so the identities of folders are compared too.
    const identity = identify(path);
    const ownIdentity = identify(this.#dataDir);
    const isMountedAround = listParents(followLinks(this.#dataDir))
      .map(identify)
      .includes(identity);
    const isMountedInside = [followLinks(path), ...listParents(followLinks(path))]
      .map(identify)
      .includes(ownIdentity);
    if (isAround || (identity !== undefined && isMountedAround))
      return "contains the data directory of Berth";
    if (isInside || (ownIdentity !== undefined && isMountedInside))
      return "is in the data directory of Berth";
    return undefined;
  }

  /**
   * For a path in an allowed folder that leads out of the folder, or could be made to lead out of it, returns the
   * problem as the end of a sentence that begins with the path; undefined for a safe path. `writable` lists the folders
   * that Apps can write to. An app could replace a path below one of them by a link, between this check and the mount.
   */
  findEscape(path: string, writable: Iterable<string>): string | undefined {
    const given = resolve(path);
    const folder = this.#confining.find((one) => isWithin(one, given));
    if (folder === undefined) return "is in no folder of host_path_allow";
    let steps: readonly PathStep[];
    let root: string;
    try {
      steps = listPathSteps(given);
      root = realpathSync(folder);
    } catch {
      return "does not exist, or Berth may not look at it";
    }
    const target = steps.at(-1);
    const real = realpathSync(given);
    if (!isWithin(root, real)) return "leads out of the folder of host_path_allow through a link";
    if (!target?.stats.isDirectory() && !statSync(given).isFile())
      return "is neither a folder nor a file";
    const reserved = this.#reserved.flatMap((one) => [one, followLinks(one)]);
    if (reserved.some((one) => isWithin(one, real) || isWithin(real, one)))
      return "overlaps with a folder whose files Berth trusts";
    if (real === root && given === folder) return undefined;
    const between = steps.filter((step) => step !== target && isWithin(root, step.path));
    if (findUntrustedStep(between, this.#userId))
      return "is below a folder that other users of the machine can write to";
    for (const other of writable) {
      const places = [resolve(other), followLinks(other)];
      if (places.some((place) => isBelow(place, given) || isBelow(place, real)))
        return `is below ${other}, which an app can write to`;
    }
    return undefined;
  }
}

/** The type of the file system procfs, as statfs(2) returns it. */
const PROC_SUPER_MAGIC = 0x9fa0;

/**
 * True for the file system of the processes, and for every path that leads through it. The links of this file system
 * mean other files for the engine than for Berth: /proc/self/cwd is the working directory of the program that opens it.
 */
function leadsThroughProcesses(path: string): boolean {
  const given = resolve(path);
  if (isWithin("/proc", given)) return true;
  try {
    return listPathSteps(given).some(
      ({ path: step, stats }) =>
        // statfs follows a symbolic link and reports the file system of its target, so the folder of the link is
        // examined.
        statfsSync(stats.isDirectory() ? step : dirname(step)).type === PROC_SUPER_MAGIC,
    );
  } catch (error) {
    // The result is true for a path below /proc that Berth cannot examine: the engine can follow a link, such as
    // /proc/1/root, that Berth may not follow, or whose process starts later.
    if (error instanceof Error && "path" in error && isWithin("/proc", String(error.path)))
      return true;
    const parent = dirname(given);
    return parent !== given && leadsThroughProcesses(parent);
  }
}

/** Returns the path with its symbolic links resolved, as far as the path exists. */
function followLinks(path: string): string {
  const given = resolve(path);
  try {
    return realpathSync(given);
  } catch {
    const parent = dirname(given);
    return parent === given ? given : join(followLinks(parent), relative(parent, given));
  }
}

function identify(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}

/** Lists the folders that contain a path, the nearest first. */
function listParents(path: string): string[] {
  const parents: string[] = [];
  for (let at = path; at !== parse(at).root; ) {
    at = dirname(at);
    parents.push(at);
  }
  return parents;
}

function isBelow(folder: string, path: string): boolean {
  return folder !== path && isWithin(folder, path);
}

function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
