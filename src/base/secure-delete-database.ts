import {
  type Durability,
  type Migration,
  migrate,
  openDatabase,
  type SqliteDatabase,
} from "./sqlite.ts";

/**
 * A database of which nothing is left of what is deleted: pages are overwritten with zeros, and nothing goes to files
 * beside it. It does not wait for other programs (`SQLITE_BUSY`): whoever waits does so outside, where the daemon goes
 * on. Throws what SQLite says.
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
