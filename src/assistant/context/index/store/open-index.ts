import { rmSync } from "node:fs";
import { join } from "node:path";
import { BerthError } from "../../../../base/errors.ts";
import { migrate, openDatabase, type SqliteDatabase } from "../../../../base/sqlite.ts";
import { contextMigrations } from "./index-schema.ts";

const FILE = "context.db";
/**
 * The format of the index. It changes with the schema, with the way in which files are read or split, and with the rules
 * for secrets. An index of another format is deleted and built again from the files.
 */
const INDEX_FORMAT = "3";

/**
 * Opens the index in `dir`, or makes it. One that is damaged, or made by another way of reading, is
 * thrown away: all that it had is in the files. `isNew` says so. Throws where the disk refuses.
 */
export function openIndex(dir: string): { db: SqliteDatabase; isNew: boolean } {
  const file = join(dir, FILE);
  try {
    const db = openPrepared(file);
    if (readSetting(db, "reading") === INDEX_FORMAT) return { db, isNew: false };
    db.close();
  } catch (error) {
    if (!isDamaged(error)) throw error;
  }
  removeIndex(dir);
  const db = openPrepared(file);
  writeSetting(db, "reading", INDEX_FORMAT);
  return { db, isNew: true };
}

/** For one that is damaged; whoever has it open must end. */
export function removeIndex(dir: string): void {
  for (const end of ["", "-wal", "-shm"]) rmSync(join(dir, `${FILE}${end}`), { force: true });
}

/** What is wrong is the file itself, or who wrote it: another one is the way out. */
export function isDamaged(error: unknown): boolean {
  if (error instanceof BerthError)
    return error.code === "store_corrupt" || error.code === "wrong_state";
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return code.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB";
}

export function readSetting(db: SqliteDatabase, name: string): string | undefined {
  return db.prepare<[string], string>("SELECT value FROM setting WHERE name = ?").pluck().get(name);
}

export function writeSetting(db: SqliteDatabase, name: string, value: string): void {
  db.prepare("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)").run(name, value);
}

function openPrepared(file: string): SqliteDatabase {
  const db = openDatabase({ file, durability: "full" });
  try {
    // Before the first row: what is deleted is overwritten, not only let go.
    db.pragma("secure_delete = ON");
    db.pragma("cache_size = -65536");
    migrate(db, contextMigrations);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
