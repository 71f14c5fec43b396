import { rmSync } from "node:fs";
import { join } from "node:path";
import { BerthError, getErrorCode } from "../../../../base/errors.ts";
import { migrate, openDatabase, type SqliteDatabase } from "../../../../base/sqlite.ts";
import { contextMigrations } from "./index-schema.ts";

const FILE = "context.db";
/**
 * The version of the index's format. It must change with the schema, with the way in which files are read or split,
 * and with the rules for secrets. An index of another version is deleted and built again from the files.
 */
const INDEX_FORMAT = "3";

/**
 * Opens the index in `dir`, or creates it. A damaged index, or an index of another format, is deleted and created
 * again; then `isNew` is true. Throws if the disk cannot be used.
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

/** Deletes the index. A process that has the index open must exit afterwards. */
export function removeIndex(dir: string): void {
  for (const end of ["", "-wal", "-shm"]) rmSync(join(dir, `${FILE}${end}`), { force: true });
}

/**
 * Returns true if the index must be deleted and built again, because its file is damaged or was written by a newer
 * version of Berth.
 */
export function isDamaged(error: unknown): boolean {
  if (error instanceof BerthError)
    return error.code === "store_corrupt" || error.code === "wrong_state";
  const code = getErrorCode(error) ?? "";
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
    // secure_delete is set before the first row is written, so that all deleted content is overwritten.
    db.pragma("secure_delete = ON");
    db.pragma("cache_size = -65536");
    migrate(db, contextMigrations);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
