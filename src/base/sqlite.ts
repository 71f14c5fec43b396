import assert from "node:assert/strict";
import { closeSync, existsSync, openSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { fsyncDirectorySync } from "./atomic-file.ts";
import { BerthError } from "./errors.ts";

export type SqliteDatabase = Database.Database;

/**
 * full: every write is flushed to the disk before the call returns. off: writes are never flushed, for simulations that
 * open thousands of databases and never lose power.
 */
export type Durability = "full" | "off";

/** Milliseconds that a call waits for the lock of another process, such as the `sqlite3` of a user. */
const BUSY_TIMEOUT_MS = 5_000;
/** A checkpoint truncates the write-ahead log to this size if it is larger. */
const JOURNAL_SIZE_LIMIT_BYTES = 64 * 1024 * 1024;

/**
 * Opens a database in WAL mode, or creates it with mode 0600. Throws the BerthErrors of `mapSqliteError`. Asserts
 * `synchronous = FULL`, because NORMAL, which is usual with WAL, may lose the last commits in a power cut.
 */
export function openDatabase(options: {
  readonly file: string;
  readonly durability: Durability;
  /** A write that would make the database larger than this fails with `disk_full`. Default: no limit. */
  readonly sizeMaxBytes?: number | undefined;
}): SqliteDatabase {
  let db: SqliteDatabase | undefined;
  try {
    if (!existsSync(options.file)) {
      closeSync(openSync(options.file, "a", 0o600));
      if (options.durability === "full") fsyncDirectorySync(dirname(options.file));
    }
    db = new Database(options.file, { timeout: BUSY_TIMEOUT_MS });
    // This pragma must precede the first write, and the next pragma, which enables the write-ahead log, is a write.
    db.pragma(`synchronous = ${options.durability === "full" ? "FULL" : "OFF"}`);
    assert.equal(db.pragma("journal_mode = WAL", { simple: true }), "wal");
    assert.equal(
      db.pragma("synchronous", { simple: true }),
      options.durability === "full" ? 2 : 0,
      "the database must flush each commit",
    );
    db.pragma("foreign_keys = ON");
    assert.equal(db.pragma("foreign_keys", { simple: true }), 1);
    db.pragma("trusted_schema = OFF");
    if (options.sizeMaxBytes !== undefined) {
      const pageBytes = Number(db.pragma("page_size", { simple: true }));
      db.pragma(`max_page_count = ${Math.max(1, Math.floor(options.sizeMaxBytes / pageBytes))}`);
    }
    db.pragma(`journal_size_limit = ${JOURNAL_SIZE_LIMIT_BYTES}`);
    return db;
  } catch (error) {
    db?.close();
    throw mapSqliteError(error);
  }
}

/**
 * Maps an error of SQLite to a BerthError: `disk_full`, `store_corrupt`, or `internal` with SQLite's code. Returns
 * other errors unchanged. SQLite's own text may contain a path, so only the cause contains it.
 */
export function mapSqliteError(error: unknown): unknown {
  if (error instanceof TypeError && error.message.includes("connection is not open")) {
    return new BerthError("internal", "the store is closed", { cause: error });
  }
  if (!(error instanceof Database.SqliteError)) return mapSystemError(error);
  const code = error.code;
  if (code === "SQLITE_FULL" || code === "SQLITE_IOERR_SHMSIZE") return diskFullError(error);
  if (code.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB") {
    return new BerthError("store_corrupt", "the store is damaged and cannot be read", {
      hint: "restore the last good backup with: berth restore FILE",
      cause: error,
    });
  }
  return new BerthError("internal", `the store failed with ${code}`, {
    hint: "check the disk and the permissions of the data directory",
    cause: error,
  });
}

/**
 * Maps a system error about a file of the database. The text of the system error contains paths, so only the cause
 * contains it.
 */
function mapSystemError(error: unknown): unknown {
  if (!(error instanceof Error) || !("syscall" in error) || !("code" in error)) return error;
  if (error.code === "ENOSPC" || error.code === "EDQUOT") return diskFullError(error);
  return new BerthError("internal", `a file of the store cannot be used (${String(error.code)})`, {
    hint: "check that the folder exists and that the user who runs Berth may write to it",
    cause: error,
  });
}

function diskFullError(cause: Error): BerthError {
  return new BerthError("disk_full", "the disk is full; nothing was written", {
    hint: "free some space, then try again",
    cause,
  });
}

/** The SQL of one schema migration. Migrations are numbered from 1 by position, and never edited after a release. */
export type Migration = string;

/**
 * Applies the migrations that the database does not have yet, each in its own transaction. Throws `wrong_state` if a
 * newer program has written the database, because migrations cannot be reverted.
 */
export function migrate(db: SqliteDatabase, migrations: readonly Migration[]): void {
  const current = readSchemaVersion(db);
  if (current > migrations.length) {
    throw new BerthError(
      "wrong_state",
      `the store was written by a newer version of Berth (schema ${current}; this version knows ${migrations.length})`,
      { hint: "start the newer version again, or restore a backup that this version has made" },
    );
  }
  try {
    for (const [index, migration] of migrations.entries()) {
      if (index < current) continue;
      db.transaction(() => {
        db.exec(migration);
        db.pragma(`user_version = ${index + 1}`);
      })();
    }
  } catch (error) {
    throw mapSqliteError(error);
  }
}

export function readSchemaVersion(db: SqliteDatabase): number {
  try {
    return Number(db.pragma("user_version", { simple: true }));
  } catch (error) {
    throw mapSqliteError(error);
  }
}
