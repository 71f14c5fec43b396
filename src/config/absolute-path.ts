import { isAbsolute, join, resolve } from "node:path";

/** Resolves a path against `base`; `~` stands for `home`. */
export function toAbsolutePath(path: string, base: string, home: string): string {
  if (path === "~" || path.startsWith("~/")) return join(home, path.slice(1));
  return isAbsolute(path) ? resolve(path) : resolve(base, path);
}
