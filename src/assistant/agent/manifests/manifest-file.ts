import type { BigIntStats } from "node:fs";
import { constants } from "node:fs";
import { lstat, open, readdir, realpath, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { getErrorCode } from "../../../base/errors.ts";
import type { ManifestFault } from "../tool-manifest.ts";
import { MANIFEST_BYTES_MAX } from "./manifest-format.ts";
import { type ParsedManifest, parseManifest } from "./parse-manifest.ts";

const EXTENSION = ".json";
/**
 * At most this number of files in a folder is read. No desktop has more apps; the limit protects against a link to a
 * huge folder.
 */
const FILES_MAX = 5000;

export interface ManifestListing {
  /** Sorted names of the files that may be manifests. */
  readonly names: readonly string[];
  /** The reason why an existing folder cannot be read, without paths. */
  readonly problem: string | undefined;
}

/** Lists the manifests in a folder. A missing folder counts as empty, without a problem. Never rejects. */
export async function listManifests(directory: string): Promise<ManifestListing> {
  try {
    const names = (await readdir(directory)).filter(isManifestName).toSorted();
    return {
      names: names.slice(0, FILES_MAX),
      problem: names.length > FILES_MAX ? `only the first ${FILES_MAX} files are read` : undefined,
    };
  } catch (error) {
    const code = getErrorCode(error);
    const isAbsent = code === "ENOENT" || code === "ENOTDIR";
    return { names: [], problem: isAbsent ? undefined : describeSystemError(error) };
  }
}

/** Returns false for hidden files and editor backups, which are not manifests. */
export function isManifestName(name: string): boolean {
  return name.endsWith(EXTENSION) && !/^[.#~]/.test(name);
}

export function getFileStem(name: string): string {
  return name.slice(0, -EXTENSION.length);
}

export interface ManifestFile {
  readonly parsed: ParsedManifest;
  /** The content of the file; undefined if the file could not be read, or was rejected without being read. */
  readonly bytes: Uint8Array | undefined;
}

/**
 * Returns a stamp that changes with the file, as far as the file system can tell; undefined if the file does not
 * exist.
 */
export async function readFileStamp(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, mode, uid } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs, mode, uid].join(":");
  } catch (error) {
    const code = getErrorCode(error);
    if (code !== "ENOENT") return `problem:${code ?? "unknown"}`;
    const isLink = await lstat(path).then(
      () => true,
      () => false,
    );
    return isLink ? "problem:dangling" : undefined;
  }
}

/**
 * Reads and checks one file; undefined if it does not exist. The file must belong to this user or root and must not be
 * writable by other users, because users trust what a manifest says about its tools. Never rejects.
 */
export async function readManifestFile(
  path: string,
  expectedAppId: string | undefined,
  userId: number,
): Promise<ManifestFile | undefined> {
  try {
    const isLink = (await lstat(path)).isSymbolicLink();
    // The type is checked before opening, because opening a device file can have side effects.
    const before = await stat(path, { bigint: true });
    if (!before.isFile()) return rejectFile("the file is not a regular file");
    // With O_NONBLOCK, a pipe that has replaced the file since the check cannot block the scan.
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = await handle.stat({ bigint: true });
      const problem = ownershipProblem(stats, userId) ?? sizeProblem(stats);
      if (problem !== undefined) return rejectFile(problem);
      const bytes = await readAtMost(handle, MANIFEST_BYTES_MAX + 1);
      const parsed = parseManifest(bytes, expectedAppId);
      const warnings = [...groupWarning(stats), ...(isLink ? await linkWarning(path) : [])];
      return { parsed: { ...parsed, faults: [...warnings, ...parsed.faults] }, bytes };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (getErrorCode(error) !== "ENOENT") return rejectFile(describeSystemError(error));
    const isDangling = (await readFileStamp(path)) !== undefined;
    return isDangling ? rejectFile("the file is a broken link") : undefined;
  }
}

/** Returns the problem with a file's owner or mode; undefined if there is none. */
export function ownershipProblem(
  stats: Pick<BigIntStats, "uid" | "mode">,
  userId: number,
): string | undefined {
  if (stats.uid !== 0n && stats.uid !== BigInt(userId)) {
    return "the file belongs to another user; make it your own, or root's";
  }
  if ((stats.mode & 0o002n) !== 0n)
    return "every user may write the file; remove that permission with chmod o-w";
  return undefined;
}

function sizeProblem(stats: BigIntStats): string | undefined {
  if (!stats.isFile()) return "the file is not a regular file";
  return stats.size > BigInt(MANIFEST_BYTES_MAX) ? "the file is larger than 1 MiB" : undefined;
}

function groupWarning(stats: BigIntStats): ManifestFault[] {
  return (stats.mode & 0o020n) === 0n ? [] : [createWarning("the group of the file may write it")];
}

async function linkWarning(path: string): Promise<ManifestFault[]> {
  const [target, folder] = await Promise.all([realpath(path), realpath(dirname(path))]);
  return dirname(target) === folder
    ? []
    : [
        createWarning(
          "the file is a link to a file outside the folder: a change there may go unnoticed for a minute",
        ),
      ];
}

function createWarning(message: string): ManifestFault {
  return { pointer: "", message, severity: "warning" };
}

function rejectFile(message: string): ManifestFile {
  const faults: ManifestFault[] = [{ pointer: "", message, severity: "error" }];
  return {
    parsed: { manifest: undefined, appId: undefined, tools: [], faults, isIncomplete: false },
    bytes: undefined,
  };
}

async function readAtMost(
  handle: { read(buffer: Uint8Array): Promise<{ bytesRead: number }> },
  bytesMax: number,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let total = 0;
  while (total < bytesMax) {
    const chunk = new Uint8Array(Math.min(64 * 1024, bytesMax - total));
    const { bytesRead } = await handle.read(chunk);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    total += bytesRead;
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
}

/** Describes a system error without mentioning its path. */
function describeSystemError(error: unknown): string {
  const code = getErrorCode(error);
  switch (code) {
    case "EACCES":
    case "EPERM":
      return "permission denied";
    case "ELOOP":
      return "the links to the file form a cycle";
    case "ENXIO":
      return "the file is not a regular file";
    default:
      return `the file cannot be read (${code ?? "unknown"})`;
  }
}
