import { lstatSync, readlinkSync, type Stats } from "node:fs";
import { join, parse, sep } from "node:path";

/**
 * The number of symbolic links that the Linux kernel follows in one path. A path with more links, probably a loop, is
 * refused.
 */
const LINKS_MAX = 40;
const STICKY = 0o1000;
const WRITABLE_BY_GROUP = 0o020;
const WRITABLE_BY_OTHERS = 0o002;

/** A step on the way to a file: a folder, a link, or the file itself. */
export interface PathStep {
  readonly path: string;
  readonly stats: Stats;
}

/**
 * Lists every folder and link through which the system reaches a path, and the file or folder itself as the last one.
 * Throws the error of the system if the path cannot be followed to its end.
 */
export function listPathSteps(path: string): PathStep[] {
  const { root } = parse(path);
  const rest = path.slice(root.length).split(sep).filter(isName);
  const steps: PathStep[] = [{ path: root, stats: lstatSync(root) }];
  let at = root;
  let links = 0;
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    if (name === "..") {
      at = join(at, "..");
      continue;
    }
    const next = join(at, name);
    const stats = lstatSync(next);
    steps.push({ path: next, stats });
    if (!stats.isSymbolicLink()) {
      at = next;
      continue;
    }
    links += 1;
    if (links > LINKS_MAX) throw Object.assign(new Error("too many links"), { code: "ELOOP" });
    const target = readlinkSync(next);
    if (target.startsWith(sep)) at = root;
    rest.unshift(...target.split(sep).filter(isName));
  }
  return steps;
}

/**
 * Returns the first folder, link or file on a path that a user other than root and `userId` may replace or write to;
 * undefined if there is none. In a folder with the sticky bit, such as /tmp, only the owner of an entry may replace it.
 * The group `privateGroupId` has no other member than that user, so it may write.
 */
export function findUntrustedStep(
  steps: readonly PathStep[],
  userId: number,
  privateGroupId?: number,
): PathStep | undefined {
  return steps.find(({ stats }) => {
    if (stats.uid !== 0 && stats.uid !== userId) return true;
    const group = stats.gid === privateGroupId ? 0 : WRITABLE_BY_GROUP;
    // The system ignores the permission bits of a symbolic link, so a link is never untrusted because of them.
    if (stats.isSymbolicLink() || (stats.mode & (group | WRITABLE_BY_OTHERS)) === 0) return false;
    return !(stats.isDirectory() && (stats.mode & STICKY) !== 0);
  });
}

function isName(part: string): boolean {
  return part !== "" && part !== ".";
}
