import { isAbsolute, join } from "node:path";
import type { Environment } from "../../../base/process-environment.ts";

/**
 * Returns the manifest folders, highest priority first. ASSISTANT_MANIFEST_PATH lists them, separated by colons; by
 * default they are below the XDG data directories, and the user's own data directory comes first. Relative paths are
 * ignored, as the XDG specification requires.
 */
export function manifestDirectories(
  environment: Environment,
  homeDirectory: string,
): readonly string[] {
  const given = splitPaths(environment["ASSISTANT_MANIFEST_PATH"]).map((path) =>
    path === "~" || path.startsWith("~/") ? join(homeDirectory, path.slice(1)) : path,
  );
  if (given.length > 0) return unique(given.filter((path) => isAbsolute(path)));
  const home = environment["XDG_DATA_HOME"];
  const dirs = splitPaths(environment["XDG_DATA_DIRS"] || "/usr/local/share:/usr/share");
  const roots = [home && isAbsolute(home) ? home : join(homeDirectory, ".local/share"), ...dirs];
  return unique(
    roots.filter((path) => isAbsolute(path)).map((path) => join(path, "assistant/manifests")),
  );
}

function splitPaths(value: string | undefined): string[] {
  return (value ?? "").split(":").filter((path) => path !== "");
}

function unique(paths: readonly string[]): readonly string[] {
  return [...new Set(paths.map((path) => join(path, ".").replace(/(.)\/$/, "$1")))];
}
