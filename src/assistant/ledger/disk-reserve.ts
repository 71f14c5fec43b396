import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { LedgerFailure } from "./ledger-failure.ts";

/**
 * Above what the write-ahead log holds between two checkpoints (8 MiB): on a full disk, moving all of
 * it into the database and recording that the disk is full must fit into what the reserve gives back.
 */
const RESERVE_BYTES = 10 * 1024 * 1024;
/** What must be free beside it: a disk that the next commit fills again is still full. */
const SPACE_BYTES_MIN = 4 * 1024 * 1024;
const PIECE_BYTES = 1024 * 1024;

/** Makes the reserve file, with blocks of the disk behind it. Where they are not to be had, throws and takes nothing. */
export function allocateReserve(file: string): void {
  if (statSync(file, { throwIfNoEntry: false })?.size === RESERVE_BYTES) return;
  // Asked first, so that others do not run out of space each time that this is tried, too.
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
