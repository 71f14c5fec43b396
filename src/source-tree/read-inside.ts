import { readFile, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import { BerthError, getErrorCode } from "../base/errors.ts";

/**
 * Reads a text file of a source folder; undefined if it does not exist. A file whose real path is outside the folder
 * counts as missing, because a link could otherwise reveal any file of the machine in messages or in the built image.
 * Throws `invalid_request` if the file is larger than `bytesMax`.
 */
export async function readInside(
  dir: string,
  path: string,
  bytesMax: number,
): Promise<string | undefined> {
  try {
    const root = await realpath(dir);
    const file = await realpath(join(root, path));
    if (!file.startsWith(root === sep ? root : root + sep)) return undefined;
    const state = await stat(file);
    if (!state.isFile()) return undefined;
    if (state.size > bytesMax)
      throw new BerthError("invalid_request", `${path} is larger than ${bytesMax} bytes`);
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof BerthError) throw error;
    if (isMissing(error)) return undefined;
    throw new BerthError("invalid_request", `${path} of the source cannot be read`, {
      hint: "check its permissions",
      cause: error,
    });
  }
}

const missingCodes = ["ENOENT", "ENOTDIR", "ELOOP"];

/** Returns true for a path that does not exist, including a circular link and a path below a file. */
export function isMissing(error: unknown): boolean {
  return missingCodes.some((code) => code === getErrorCode(error));
}
