import { posix } from "node:path";

/**
 * Whether a link leads out of its tree, by its text alone: `path` is where the link is, relative to
 * the tree. A way through other links is not seen here; what unpacks strangers' trees looks again.
 */
export function leadsOutside(path: string, target: string): boolean {
  if (posix.isAbsolute(target)) return true;
  const end = posix.join(posix.dirname(path), target);
  return end === ".." || end.startsWith("../");
}
