import { posix } from "node:path";

/**
 * Returns true if the target of a link is outside its tree. `path` is the link's path relative to the tree. The
 * function does not follow other links on the way, so code that unpacks untrusted trees must check those itself.
 */
export function leadsOutside(path: string, target: string): boolean {
  if (posix.isAbsolute(target)) return true;
  const end = posix.join(posix.dirname(path), target);
  return end === ".." || end.startsWith("../");
}
