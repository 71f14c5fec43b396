import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { getErrorCode } from "../../../src/base/errors.ts";

/** Returns the sha256 of a file in hexadecimal digits. */
export async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
  return hash.digest("hex");
}

/** Returns true if the file exists and has this sha256. */
export async function hasDigest(path: string, sha256: string): Promise<boolean> {
  try {
    return (await digestOf(path)) === sha256;
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return false;
    throw error;
  }
}
