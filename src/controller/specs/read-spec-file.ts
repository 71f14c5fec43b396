import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { getErrorCode } from "../../base/errors.ts";
import { SPEC_FILE_BYTES_MAX } from "../../resources/parse-manifests.ts";
import { describeReadError } from "./scan-folder.ts";

export type FileContent =
  | { readonly bytes: Uint8Array; readonly hash: string }
  | { readonly problem: string };

/**
 * Reads the bytes of a spec file, up to one more than the parser accepts. Undefined if the file was removed after it
 * was listed.
 */
export async function readSpecFile(path: string): Promise<FileContent | undefined> {
  try {
    // The file is opened without blocking, because a pipe with the name of the file would block the scan.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      if (!(await file.stat()).isFile()) return { problem: "it is not a file" };
      const bytes = await readAll(file);
      return { bytes, hash: createHash("sha256").update(bytes).digest("hex") };
    } finally {
      await file.close();
    }
  } catch (error) {
    return getErrorCode(error) === "ENOENT" ? undefined : { problem: describeReadError(error) };
  }
}

const CHUNK_BYTES = 64 * 1024;

async function readAll(file: {
  read(buffer: Uint8Array): Promise<{ bytesRead: number }>;
}): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let total = 0;
  while (total <= SPEC_FILE_BYTES_MAX) {
    const chunk = new Uint8Array(Math.min(CHUNK_BYTES, SPEC_FILE_BYTES_MAX + 1 - total));
    const { bytesRead } = await file.read(chunk);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    total += bytesRead;
  }
  return Buffer.concat(chunks);
}
