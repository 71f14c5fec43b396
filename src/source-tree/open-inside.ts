import { constants } from "node:fs";
import { type FileHandle, open, readlink } from "node:fs/promises";
import { join } from "node:path";
import { BerthError } from "../base/errors.ts";

/** Linux shows the path of each open file and folder in /proc. Servers run on Linux only. */
const CAN_LOCATE = process.platform === "linux";

/**
 * Opens a file or a folder of a source for reading. `dir` is a real path, without links. Throws `conflict` if the
 * opened file is not at `path` in `dir`: while a source is read, another process may replace one of its folders, or a
 * folder that contains the source, by a link to a folder that must not be built, such as the data directory of Berth.
 * Throws the error of the system if the path is a link, or cannot be opened.
 */
export async function openInside(dir: string, path: string): Promise<FileHandle> {
  const file = join(dir, path);
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(file, flags);
  try {
    if (CAN_LOCATE && (await readlink(locate(handle))) !== file) throw changedError(path);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Returns a path that reaches the entries of a folder that `openInside` has opened. On Linux the path leads to this
 * very folder, even if another one has replaced it since.
 */
export function getFolderPath(handle: FileHandle, dir: string, path: string): string {
  return CAN_LOCATE ? locate(handle) : join(dir, path);
}

export function changedError(path: string): BerthError {
  const what = path === "" ? "the source folder" : path;
  return new BerthError("conflict", `${what} changed while it was read`, {
    hint: "try again when no process writes to the folder",
  });
}

function locate(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`;
}
