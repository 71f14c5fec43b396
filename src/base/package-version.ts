import { readFileSync } from "node:fs";

/**
 * Reads the version from package.json, which is two folders above this module both in the source tree and in the
 * build.
 */
export function readPackageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null && "version" in value
    ? String(value.version)
    : "unknown";
}
