import { readFileSync } from "node:fs";

/** Reads package.json, which is two folders up both in the source tree and in the built one. */
export function readPackageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null && "version" in value
    ? String(value.version)
    : "unknown";
}
