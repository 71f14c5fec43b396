import { createHash } from "node:crypto";
import type { ResolvedFile } from "./port.ts";

/**
 * Computes the key of a model from its files. The key is equal for all repositories, commits and URLs with the same
 * bytes under the same names. `origin` affects the key only if a digest is missing.
 */
export function computeContentKey(
  files: readonly ResolvedFile[],
  origin: readonly unknown[],
): string {
  const contents = files.map(({ name, sha256, gitBlob }) => [name, sha256 ?? gitBlob]);
  const known = files.every(({ sha256, gitBlob }) => sha256 !== null || gitBlob !== null);
  return hashModelKey(known ? contents : [contents, ...origin]);
}

/** Returns 32 hexadecimal digits of a SHA-256: enough to avoid collisions, and short enough to read in a path. */
export function hashModelKey(parts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);
}
