import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { type Clock, timestamp } from "../base/clock.ts";
import { BerthError } from "../base/errors.ts";
import { mapSqliteError } from "../base/sqlite.ts";

export interface StoreLock {
  /** Releases the lock. A second call has no effect. */
  release(): void;
}

/**
 * Locks the data directory for this process, or throws `store_locked` with the process that holds the lock.
 *
 * The lock is an open exclusive transaction on a separate small database. The system releases it even if the process is
 * killed, so there are no stale locks. The file `lock.json` only shows users which process holds the lock.
 */
export function acquireStoreLock(dataDir: string, clock: Clock): StoreLock {
  const directory = join(dataDir, "run");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const holderFile = join(directory, "lock.json");
  let db: Database.Database | undefined;
  try {
    db = new Database(join(directory, "lock.db"), { timeout: 0 });
    // The database has no content, so flushes to the disk are useless. They would take milliseconds.
    db.pragma("synchronous = OFF");
    db.pragma("locking_mode = EXCLUSIVE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db?.close();
    if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY")) {
      throw new BerthError(
        "store_locked",
        `the data directory is in use by ${describeHolder(holderFile)}`,
        { hint: "stop that process, or choose another data directory with --data-dir" },
      );
    }
    throw mapSqliteError(error);
  }
  const holder: LockHolder = {
    pid: process.pid,
    host: hostname(),
    startedAt: timestamp(clock.now()),
  };
  writeFileSync(holderFile, `${JSON.stringify(holder)}\n`, { mode: 0o600 });
  const held = db;
  return {
    release() {
      if (!held.open) return;
      rmSync(holderFile, { force: true });
      held.close();
    },
  };
}

interface LockHolder {
  readonly pid: number;
  readonly host: string;
  readonly startedAt: string;
}

function describeHolder(file: string): string {
  try {
    const holder: Partial<LockHolder> = JSON.parse(readFileSync(file, "utf8"));
    if (typeof holder.pid === "number") {
      return `process ${holder.pid} on ${holder.host ?? "this machine"} since ${holder.startedAt ?? "an unknown time"}`;
    }
  } catch {
    // The process that holds the lock has not written its description into the file yet.
  }
  return "another process that is starting";
}
