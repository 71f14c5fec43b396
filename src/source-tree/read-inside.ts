import { realpath } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { BerthError, getErrorCode } from "../base/errors.ts";
import { openInside } from "./open-inside.ts";

/**
 * Reads a text file of a source folder, whose path has no links; undefined if the file does not exist. A file whose
 * real path is outside the folder counts as missing, because a link could otherwise reveal any file of the machine in
 * messages or in the built image. Throws `invalid_request` if the file is larger than `bytesMax`, and the errors of
 * `openInside`.
 */
export async function readInside(
  dir: string,
  path: string,
  bytesMax: number,
): Promise<string | undefined> {
  try {
    const file = await realpath(join(dir, path));
    if (!file.startsWith(dir === sep ? dir : dir + sep)) return undefined;
    await using handle = await openInside(dir, relative(dir, file));
    const state = await handle.stat();
    if (!state.isFile()) return undefined;
    if (state.size > bytesMax)
      throw new BerthError("invalid_request", `${path} is larger than ${bytesMax} bytes`);
    return await handle.readFile("utf8");
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
