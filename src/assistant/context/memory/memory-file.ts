import { join } from "node:path";
import { openSecureDeleteDatabase } from "../../../base/secure-delete-database.ts";
import type { Migration, SqliteDatabase } from "../../../base/sqlite.ts";
import type { AppMemoryUsage } from "../port.ts";
import type { MemoryUsage } from "./memory-bounds.ts";

const migrations: readonly Migration[] = [
  `
  -- The apps with values, and their usage.
  CREATE TABLE app (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL UNIQUE,
    keys  INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT;

  -- Key and value, encrypted with the app's key; name is a keyed digest of the key.
  CREATE TABLE item (
    id     INTEGER PRIMARY KEY,
    app    INTEGER NOT NULL REFERENCES app (id),
    name   BLOB NOT NULL,
    sealed BLOB NOT NULL,
    bytes  INTEGER NOT NULL,
    UNIQUE (app, name)
  ) STRICT;
  `,
];

export interface StoredItem {
  readonly name: Buffer;
  readonly sealed: Buffer;
}

/** The database `memory.db` with the encrypted values of apps. All methods throw SQLite's errors. */
export class MemoryFile {
  readonly #db: SqliteDatabase;

  constructor(stateDir: string) {
    const file = join(stateDir, "memory.db");
    this.#db = openSecureDeleteDatabase({ file, durability: "full" }, migrations);
  }

  listApps(): readonly string[] {
    return this.#db.prepare<[], string>("SELECT name FROM app").pluck().all();
  }

  /** Returns the usage of each app that has values, in the order of their names. */
  listUsage(): readonly AppMemoryUsage[] {
    return this.#db
      .prepare<[], AppMemoryUsage>("SELECT name AS app, keys, bytes FROM app ORDER BY name")
      .all();
  }

  countApps(): number {
    return this.#db.prepare<[], number>("SELECT count(*) FROM app").pluck().get() ?? 0;
  }

  /** Returns the number of keys and bytes of an app; undefined if the app has no values. */
  readUsage(app: string): MemoryUsage | undefined {
    return this.#db
      .prepare<[string], MemoryUsage>("SELECT keys, bytes FROM app WHERE name = ?")
      .get(app);
  }

  /**
   * Returns the number of bytes with which an item counts towards the app's limit; undefined if the app has no such
   * item.
   */
  readItemBytes(app: string, name: Buffer): number | undefined {
    return this.#db
      .prepare<[string, Buffer], number>(
        "SELECT item.bytes FROM item JOIN app ON app.id = item.app WHERE app.name = ? AND item.name = ?",
      )
      .pluck()
      .get(app, name);
  }

  get(app: string, name: Buffer): Buffer | undefined {
    return this.#db
      .prepare<[string, Buffer], Buffer>(
        "SELECT sealed FROM item JOIN app ON app.id = item.app WHERE app.name = ? AND item.name = ?",
      )
      .pluck()
      .get(app, name);
  }

  /** Returns the items in the order in which their keys were first set. */
  list(app: string): readonly StoredItem[] {
    return this.#db
      .prepare<[string], StoredItem>(
        "SELECT item.name, sealed FROM item JOIN app ON app.id = item.app WHERE app.name = ? ORDER BY item.id",
      )
      .all(app);
  }

  /**
   * Writes an item in one transaction, which is flushed to the disk when the method returns. `kept` is the number of
   * keys and bytes that the app uses after the write.
   */
  set(app: string, item: StoredItem & { readonly bytes: number }, kept: MemoryUsage): void {
    this.#db
      .transaction(() => {
        const id = this.#db
          .prepare<[string, number, number], number>(
            `INSERT INTO app (name, keys, bytes) VALUES (?, ?, ?)
             ON CONFLICT (name) DO UPDATE SET keys = excluded.keys, bytes = excluded.bytes
             RETURNING id`,
          )
          .pluck()
          .get(app, kept.keys, kept.bytes);
        this.#db
          .prepare(
            `INSERT INTO item (app, name, sealed, bytes) VALUES (?, ?, ?, ?)
             ON CONFLICT (app, name) DO UPDATE SET sealed = excluded.sealed, bytes = excluded.bytes`,
          )
          .run(id, item.name, item.sealed, item.bytes);
      })
      .immediate();
  }

  /** Deletes all rows of the app in one transaction. */
  wipe(app: string): void {
    this.#db
      .transaction(() => {
        this.#db
          .prepare("DELETE FROM item WHERE app = (SELECT id FROM app WHERE name = ?)")
          .run(app);
        this.#db.prepare("DELETE FROM app WHERE name = ?").run(app);
      })
      .immediate();
  }

  /**
   * Copies the write-ahead log into the database and truncates it, so that no file contains overwritten or deleted
   * values. Returns false if another program reads an older state of the database, because that state needs the log.
   */
  truncateLog(): boolean {
    const rows: unknown = this.#db.pragma("wal_checkpoint(TRUNCATE)");
    const row: unknown = Array.isArray(rows) ? rows[0] : undefined;
    return typeof row === "object" && row !== null && "busy" in row && row.busy === 0;
  }

  close(): void {
    this.#db.close();
  }
}
