import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { LedgerFailure } from "./ledger-failure.ts";

/**
 * The size of the reserve file. SQLite's write-ahead log grows to 8 MiB before a checkpoint copies it into the
 * database. On a full disk, the released reserve must suffice for this copy and for the record that the disk is full.
 */
const RESERVE_BYTES = 10 * 1024 * 1024;
/**
 * The space that must be free in addition to the reserve. With less space, the next commit would fill the disk again.
 */
const SPACE_BYTES_MIN = 4 * 1024 * 1024;
const PIECE_BYTES = 1024 * 1024;

/** Creates the reserve file and allocates its blocks. If there is not enough space, it throws and leaves no file. */
export function allocateReserve(file: string): void {
  if (statSync(file, { throwIfNoEntry: false })?.size === RESERVE_BYTES) return;
  // The free space is checked first. Otherwise each attempt to allocate the reserve would fill the disk, and writes of
  // other programs would fail.
  const { bavail, bsize } = statfsSync(dirname(file));
  if (bavail * bsize < RESERVE_BYTES + SPACE_BYTES_MIN)
    throw new LedgerFailure("full", "the disk is full");
  const handle = openSync(file, "w", 0o600);
  try {
    const piece = Buffer.alloc(PIECE_BYTES, 0xbe);
    for (let written = 0; written < RESERVE_BYTES; ) {
      written += writeSync(handle, piece, 0, Math.min(PIECE_BYTES, RESERVE_BYTES - written));
    }
    fsyncSync(handle);
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  } finally {
    closeSync(handle);
  }
}

export function releaseReserve(file: string): void {
  rmSync(file, { force: true });
}
