import Database from "better-sqlite3";
import { LedgerFailure } from "./ledger-failure.ts";

export interface WriterLock {
  release(): void;
}

/**
 * Excludes all other writers, also those in this process, with an open exclusive transaction on a small database. The
 * system releases the lock when the process ends, even after a crash. Throws LedgerFailure `locked`.
 */
export function acquireWriterLock(file: string): WriterLock {
  let db: Database.Database | undefined;
  try {
    db = new Database(file, { timeout: 0 });
    db.pragma("locking_mode = EXCLUSIVE");
    db.pragma("journal_mode = MEMORY");
    db.exec("BEGIN EXCLUSIVE");
    // On a read-only file system the transaction begins, although it excludes no other process. This write makes that
    // case fail.
    db.pragma("user_version = 1");
  } catch (error) {
    db?.close();
    if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY"))
      throw new LedgerFailure("locked", "the ledger is being written by another process", {
        hint: "end the other assistant that uses this data directory, or name another directory",
      });
    throw error;
  }
  const held = db;
  return { release: () => void held.close() };
}
