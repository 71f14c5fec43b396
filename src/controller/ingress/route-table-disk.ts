import type { Dirent } from "node:fs";
import { readdir, readlink, unlink } from "node:fs/promises";
import { BerthError, getErrorCode } from "../../base/errors.ts";

/** Lists a folder. Returns an empty list if the folder does not exist. */
export async function listEntries(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** Removes a file. Does nothing if the file does not exist. */
export async function removeFile(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (getErrorCode(error) !== "ENOENT") throw error;
  }
}

/** Returns the target of a link; undefined if the path does not exist, or is not a link. */
export async function readLinkTarget(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch (error) {
    if (getErrorCode(error) === "ENOENT" || getErrorCode(error) === "EINVAL") return undefined;
    throw error;
  }
}

/** Converts errors of the disk to errors without paths. */
export async function withDiskErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = getErrorCode(error);
    if (code === "ENOSPC" || code === "EDQUOT")
      throw new BerthError("disk_full", "there is no space left for the route table", {
        hint: "free space on the disk of the data directory",
        cause: error,
      });
    if (code === undefined || error instanceof BerthError) throw error;
    throw new BerthError("internal", `the route table cannot be changed (${code})`, {
      hint: "check that the data directory exists and is writable",
      cause: error,
    });
  }
}
