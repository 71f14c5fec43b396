import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readlinkSync, readSync } from "node:fs";
import { sep } from "node:path";
import { getErrorCode } from "../../../../base/errors.ts";
import type { FileStat } from "../store/document-store.ts";

/**
 * Files larger than this are not indexed: they are usually logs or dumps, whose passages would displace those of
 * other files.
 */
export const INDEXED_FILE_BYTES_MAX = 2 * 1024 * 1024;

export type FileReadResult =
  | {
      readonly type: "read";
      readonly stamp: FileStat;
      readonly bytes: Buffer;
      readonly sha256: Buffer;
    }
  /** The file is larger than INDEXED_FILE_BYTES_MAX, so its content is not indexed. */
  | { readonly type: "refused"; readonly stamp: FileStat }
  | { readonly type: "gone" }
  /** The system refuses to read the file. */
  | { readonly type: "denied" };

/**
 * Reads a regular file inside `root`. The function does not follow links and does not block on a pipe. If a parent
 * folder has been replaced by a link since it was listed, the result is `gone`.
 */
export function readInRoot(root: string, file: string): FileReadResult {
  let fd: number | undefined;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if (!isInside(root, fd)) return { type: "gone" };
    const state = fstatSync(fd);
    if (!state.isFile()) return { type: "gone" };
    const stamp = { size: state.size, mtimeMs: state.mtimeMs, ctimeMs: state.ctimeMs };
    if (state.size > INDEXED_FILE_BYTES_MAX) return { type: "refused", stamp };
    const bytes = readAll(fd, state.size);
    if (bytes === undefined) return { type: "refused", stamp };
    return { type: "read", stamp, bytes, sha256: createHash("sha256").update(bytes).digest() };
  } catch (error) {
    const code = getErrorCode(error);
    return code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP"
      ? { type: "gone" }
      : { type: "denied" };
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Reads an open file to its end. Returns undefined if the file grows past the size limit while it is read. */
function readAll(fd: number, size: number): Buffer | undefined {
  const buffer = Buffer.alloc(Math.min(size + 1, INDEXED_FILE_BYTES_MAX + 1));
  let length = 0;
  for (;;) {
    const read = readSync(fd, buffer, length, buffer.length - length, null);
    length += read;
    if (read === 0) return buffer.subarray(0, length);
    // If the file has grown since fstat, the additional bytes are left out; another event will report that change.
    if (length === buffer.length) return length > INDEXED_FILE_BYTES_MAX ? undefined : buffer;
  }
}

/** Returns true if an open file is inside the root, by its real path, or if the system does not provide that path. */
function isInside(root: string, fd: number): boolean {
  try {
    const real = readlinkSync(`/proc/self/fd/${fd}`);
    return real.startsWith(root === sep ? root : root + sep);
  } catch {
    return true;
  }
}
