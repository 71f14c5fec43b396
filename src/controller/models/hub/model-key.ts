import { createHash } from "node:crypto";
import type { ResolvedFile } from "./port.ts";

/**
 * The key of a model by what its files are: the same for every repository, commit and URL that has these
 * bytes under these names. `origin` counts only where a digest is missing.
 */
export function computeContentKey(
  files: readonly ResolvedFile[],
  origin: readonly unknown[],
): string {
  const contents = files.map(({ name, sha256, gitBlob }) => [name, sha256 ?? gitBlob]);
  const known = files.every(({ sha256, gitBlob }) => sha256 !== null || gitBlob !== null);
  return hashModelKey(known ? contents : [contents, ...origin]);
}

/** 32 digits: they never meet another's by chance, and people can still read the path. */
export function hashModelKey(parts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);
}
