import { posix } from "node:path";

/** The number of symlinks that Linux follows in one path before it reports a loop. */
const HOPS_MAX = 40;

/**
 * Returns true if the symlink at `path` of a tree leads out of the tree, directly or through other links. With `a/up
 * -> ..`, for example, the link `b -> a/up/..` leads out although the text of its target does not. Missing components
 * count as folders, which a build may create later. `readTarget` returns undefined for any path that is not a
 * symlink.
 */
export function isEscapingSymlink(
  readTarget: (path: string) => string | undefined,
  path: string,
): boolean {
  const at = posix.dirname(path).split("/").filter(isName);
  /** The components of the path that are still to be followed, the next one last. */
  const ahead = [posix.basename(path)];
  let hops = 0;
  for (let part = ahead.pop(); part !== undefined; part = ahead.pop()) {
    if (part === "..") {
      if (at.pop() === undefined) return true;
      continue;
    }
    if (!isName(part)) continue;
    const target = readTarget([...at, part].join("/"));
    if (target === undefined) {
      at.push(part);
      continue;
    }
    if (posix.isAbsolute(target)) return true;
    hops += 1;
    // A cycle of links leads to no file, so it does not lead out of the tree.
    if (hops > HOPS_MAX) return false;
    ahead.push(...target.split("/").toReversed());
  }
  return false;
}

function isName(part: string): boolean {
  return part !== "" && part !== ".";
}
