import {
  type Durability,
  type Migration,
  migrate,
  openDatabase,
  type SqliteDatabase,
} from "./sqlite.ts";

/**
 * Opens a database that erases deleted content: SQLite overwrites deleted content with zeros and keeps no temporary
 * files. If another program has locked the database, calls do not wait but throw `SQLITE_BUSY`, so that the caller can
 * wait without blocking the daemon. Errors of SQLite are thrown unchanged.
 */
export function openSecureDeleteDatabase(
  options: { readonly file: string; readonly durability: Durability },
  migrations: readonly Migration[],
): SqliteDatabase {
  const db = openDatabase(options);
  try {
    db.pragma("secure_delete = ON");
    db.pragma("temp_store = MEMORY");
    db.pragma("busy_timeout = 0");
    migrate(db, migrations);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
