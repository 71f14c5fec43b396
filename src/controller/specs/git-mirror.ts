import { createHash } from "node:crypto";
import { constants, type Dirent } from "node:fs";
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  rename,
  rm,
  rmdir,
  unlink,
} from "node:fs/promises";
import { join } from "node:path";
import { BerthError, ConflictError, getErrorCode } from "../../base/errors.ts";
import { isHidden, isSpecFileName } from "./file-names.ts";
import { isTemporaryName, writeAtomically } from "./git-files.ts";
import { type Marker, readMarker, writeMarker } from "./git-marker.ts";

/** The maximum depth of folders, which is the same as in a scan of the watched folder. */
const DEPTH_MAX = 32;

/** Reads the spec files of a checkout, by their paths below `path`. Throws `git_not_found` if there are none. */
export async function readSpecFiles(
  checkout: string,
  path: string,
  signal: AbortSignal,
): Promise<Map<string, Uint8Array>> {
  let root = checkout;
  for (const part of path.split("/").filter((word) => word !== "" && word !== ".")) {
    root = join(root, part);
    const isFolder = part !== ".." && (await isRealFolder(root));
    if (!isFolder) {
      throw new BerthError("git_not_found", `the repository has no folder ${path}`, {
        hint: "set specs_git_path to a folder of the repository; the files of the last commit stay unchanged",
      });
    }
  }
  const files = new Map<string, Uint8Array>();
  await walk(root, "", signal, async (below, entry) => {
    if (!entry.isFile() || isHidden(entry.name) || !isSpecFileName(entry.name)) return;
    const content = await readRegular(join(root, below));
    if (content) files.set(below, content);
  });
  if (files.size === 0) {
    const where = path === "." || path === "" ? "the repository" : `the folder ${path} of it`;
    throw new BerthError(
      "git_not_found",
      `${where} contains no spec file (*.yaml, *.yml, *.json)`,
      {
        hint: "check specs_git_path and specs_git_ref; the files of the last commit stay unchanged",
      },
    );
  }
  return files;
}

/**
 * Claims `folder` for one repository if it is missing or empty. If the folder has another owner, throws ConflictError
 * `conflict` and does not change the folder.
 */
export async function claimFolder(folder: string, marker: Marker): Promise<Marker> {
  const known = (await isRealFolder(folder)) ? await readMarker(folder) : undefined;
  if (known) return known;
  // The folder is created under another name with its marker, and then renamed, so that a crash leaves no folder
  // without a marker.
  const made = await mkdtemp(`${folder.replace(/[^/]+$/, "")}.berth-git.`);
  try {
    await chmod(made, 0o755);
    await writeMarker(made, marker);
    await rename(made, folder);
  } catch (error) {
    await rm(made, { recursive: true, force: true });
    if (!["ENOTEMPTY", "EEXIST", "ENOTDIR"].includes(getErrorCode(error) ?? "")) throw error;
    const name = folder.split("/").at(-1);
    throw new ConflictError("conflict", `"${name}" in the watched folder is not Berth's own`, {
      hint: "move the folder away, so that the files of the repository can be written there",
    });
  }
  return marker;
}

export function hashFiles(files: ReadonlyMap<string, Uint8Array>): Map<string, string> {
  return new Map([...files].map(([below, content]) => [below, hashContent(content)]));
}

/** Returns expected files that are missing or have another hash, and spec files that should not exist. */
export async function findDifferences(
  folder: string,
  hashes: ReadonlyMap<string, string>,
  signal: AbortSignal,
): Promise<{ changed: readonly string[]; foreign: ReadonlySet<string> }> {
  const foreign = new Set<string>();
  await walk(folder, "", signal, async (below, entry) => {
    const counts =
      isTemporaryName(entry.name) || (!isHidden(entry.name) && isSpecFileName(entry.name));
    const isLink = entry.isSymbolicLink() && !isHidden(entry.name);
    if (isLink || (counts && !entry.isDirectory() && !hashes.has(below))) foreign.add(below);
  });
  const changed: string[] = [];
  for (const [below, hash] of hashes) {
    signal.throwIfAborted();
    const there = await readRegular(join(folder, below));
    if (!there || hashContent(there) !== hash) changed.push(below);
  }
  return { changed, foreign };
}

/**
 * Makes the spec files of a claimed folder equal to `files`: first writes new and different files, each atomically,
 * then removes the others. It can be interrupted and repeated. Removes links without following them, and keeps all
 * files that are not spec files.
 */
export async function mirrorFiles(
  folder: string,
  files: ReadonlyMap<string, Uint8Array>,
  signal: AbortSignal,
): Promise<{ written: readonly string[]; removed: readonly string[] }> {
  const { changed, foreign } = await findDifferences(folder, hashFiles(files), signal);
  for (const below of changed) {
    signal.throwIfAborted();
    const content = files.get(below) ?? new Uint8Array();
    await makeParents(folder, below);
    const path = join(folder, below);
    if ((await lstat(path).catch(() => undefined))?.isDirectory())
      await rm(path, { recursive: true });
    await writeAtomically(path, content);
  }
  const removed: string[] = [];
  for (const below of foreign) {
    if (files.has(below)) continue;
    signal.throwIfAborted();
    // `below` was a file or a link. If a real folder has replaced it since `findDifferences`, the folder is kept.
    if (await isRealFolder(join(folder, below))) continue;
    await unlink(join(folder, below)).catch(ignoreNotFound);
    if (!isTemporaryName(below.split("/").at(-1) ?? "")) removed.push(below);
    await removeEmptyParents(folder, below);
  }
  return { written: changed, removed };
}

/** Creates the folders of a path. If a file or a link is where a folder should be, removes it. */
async function makeParents(folder: string, below: string): Promise<void> {
  let path = folder;
  for (const part of below.split("/").slice(0, -1)) {
    path = join(path, part);
    if (await isRealFolder(path)) continue;
    await unlink(path).catch(ignoreNotFound);
    await mkdir(path);
  }
}

async function removeEmptyParents(folder: string, below: string): Promise<void> {
  const parts = below.split("/").slice(0, -1);
  for (; parts.length > 0; parts.pop()) {
    try {
      await rmdir(join(folder, ...parts));
    } catch {
      return;
    }
  }
}

async function walk(
  root: string,
  below: string,
  signal: AbortSignal,
  visit: (below: string, entry: Dirent) => Promise<void>,
): Promise<void> {
  signal.throwIfAborted();
  const entries = await readdir(join(root, below), { withFileTypes: true });
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    await visit(path, entry);
    const isDeep = path.split("/").length > DEPTH_MAX;
    if (entry.isDirectory() && !isHidden(entry.name) && !isDeep)
      await walk(root, path, signal, visit);
  }
}

/** Reads a regular file; undefined if the path does not exist or is not a file. Links are not followed. */
async function readRegular(path: string): Promise<Buffer | undefined> {
  try {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const file = await open(path, flags);
    try {
      return (await file.stat()).isFile() ? await file.readFile() : undefined;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (["ENOENT", "ELOOP", "ENOTDIR", "EISDIR", "ENXIO"].includes(getErrorCode(error) ?? ""))
      return undefined;
    throw error;
  }
}

async function isRealFolder(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(getErrorCode(error) ?? "")) return false;
    throw error;
  }
}

function hashContent(content: Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

function ignoreNotFound(error: unknown): void {
  if (getErrorCode(error) !== "ENOENT") throw error;
}
