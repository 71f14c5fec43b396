import { join } from "node:path";
import {
  type Durability,
  type Migration,
  migrate,
  openDatabase,
  type SqliteDatabase,
} from "../../../base/sqlite.ts";
import { type DataClass, dataClasses } from "../../data-class.ts";
import type { AddressClass, Provider } from "../port.ts";
import { toStorageError } from "./storage-error.ts";

const storeFile = { what: "the list of remote providers", file: "remote.db" };

/**
 * The shortest time between two writes of a provider's last use. The time is only shown to users, so it is written
 * rarely, and at shutdown.
 */
const LAST_USE_WRITE_INTERVAL_MS = 60_000;

const migrations: readonly Migration[] = [
  `
  -- Providers that the user added. The built-in providers are not in this table.
  CREATE TABLE provider (
    number        INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    display_name  TEXT NOT NULL,
    base_url      TEXT NOT NULL,
    address_class TEXT NOT NULL CHECK (address_class IN ('public', 'loopback', 'private'))
  ) STRICT;

  -- Data classes that may leave the machine.
  CREATE TABLE allowed (
    data_class TEXT PRIMARY KEY
  ) STRICT;

  -- The last use of each provider, built in or added.
  CREATE TABLE used (
    provider TEXT PRIMARY KEY,
    last_ms  INTEGER NOT NULL
  ) STRICT;
  `,
];

interface LastUse {
  lastMs: number;
  isWritten: boolean;
  /** The time of this process's last attempt to write the provider's last use; undefined if there was none. */
  triedMs: number | undefined;
}

interface ProviderRow {
  readonly id: string;
  readonly displayName: string;
  readonly baseUrl: string;
  readonly addressClass: AddressClass;
}

/**
 * Added providers, the data classes that may leave the machine, and the time of each provider's last use:
 * `<dir>/remote.db`. A write is on the disk when the method returns. Throws AssistantError `storage_failed` if the file
 * cannot be used, and `busy` if another program locks it for more than five seconds.
 */
export class RemoteStore implements Disposable {
  readonly #db: SqliteDatabase;
  readonly #lastUses = new Map<string, LastUse>();

  constructor(options: { readonly dir: string; readonly durability?: Durability }) {
    const { dir, durability = "full" } = options;
    this.#db = openStoreFile(join(dir, storeFile.file), durability);
    this.#run((db) => {
      for (const { provider, lastMs } of db
        .prepare<[], { provider: string; lastMs: number }>(
          "SELECT provider, last_ms AS lastMs FROM used",
        )
        .all())
        this.#lastUses.set(provider, { lastMs, isWritten: true, triedMs: undefined });
    });
  }

  /** Returns the added providers in the order in which they were added. */
  providers(): readonly Provider[] {
    const rows = this.#run((db) =>
      db
        .prepare<[], ProviderRow>(
          `SELECT id, display_name AS displayName, base_url AS baseUrl, address_class AS addressClass
           FROM provider ORDER BY number`,
        )
        .all(),
    );
    return rows.map((row) => ({ ...row, builtin: false, auth: "key" }));
  }

  /** Adds a provider. Returns false if a provider with this id exists already; that provider stays unchanged. */
  addProvider(
    provider: Pick<Provider, "id" | "displayName" | "baseUrl" | "addressClass">,
  ): boolean {
    const { id, displayName, baseUrl, addressClass } = provider;
    return this.#run((db) => {
      const { changes } = db
        .prepare(
          `INSERT INTO provider (id, display_name, base_url, address_class) VALUES (?, ?, ?, ?)
           ON CONFLICT (id) DO NOTHING`,
        )
        .run(id, displayName, baseUrl, addressClass);
      return changes === 1;
    });
  }

  /** Removes a provider with all its data. Returns false if there is no such provider. */
  removeProvider(id: string): boolean {
    const isRemoved = this.#run((db) =>
      db
        .transaction(() => {
          db.prepare("DELETE FROM used WHERE provider = ?").run(id);
          return db.prepare("DELETE FROM provider WHERE id = ?").run(id).changes === 1;
        })
        .immediate(),
    );
    this.#lastUses.delete(id);
    return isRemoved;
  }

  /** Returns the data classes that may leave the machine. Initially there are none. */
  allowed(): readonly DataClass[] {
    const rows = this.#run((db) =>
      db.prepare<[], string>("SELECT data_class FROM allowed").pluck().all(),
    );
    return dataClasses.filter((scope) => rows.includes(scope));
  }

  setConsent(scope: DataClass, isAllowed: boolean): void {
    const sql = isAllowed
      ? "INSERT INTO allowed (data_class) VALUES (?) ON CONFLICT DO NOTHING"
      : "DELETE FROM allowed WHERE data_class = ?";
    this.#run((db) => db.prepare(sql).run(scope));
  }

  /**
   * Returns the time of the provider's last use in milliseconds since the Unix epoch; undefined if it was never used.
   */
  lastUsedMs(providerId: string): number | undefined {
    return this.#lastUses.get(providerId)?.lastMs;
  }

  /**
   * Records a use of the provider in memory and writes it at most once a minute per provider; a crash may lose the uses
   * of the last minute. Never throws, because an error here must not fail a request.
   */
  noteUsed(providerId: string, nowMs: number): void {
    const { triedMs } = this.#lastUses.get(providerId) ?? {};
    // The difference of the times is absolute, so that the last use is also written after the clock was set back.
    const isDue = triedMs === undefined || Math.abs(nowMs - triedMs) >= LAST_USE_WRITE_INTERVAL_MS;
    const used = { lastMs: nowMs, isWritten: false, triedMs: isDue ? nowMs : triedMs };
    this.#lastUses.set(providerId, used);
    if (isDue) this.#writeLastUse(providerId, used);
  }

  [Symbol.dispose](): void {
    if (!this.#db.open) return;
    for (const [id, used] of this.#lastUses) if (!used.isWritten) this.#writeLastUse(id, used);
    this.#db.close();
  }

  #writeLastUse(providerId: string, used: LastUse): void {
    try {
      this.#db
        .prepare(
          `INSERT INTO used (provider, last_ms) VALUES (?, ?)
           ON CONFLICT (provider) DO UPDATE SET last_ms = excluded.last_ms`,
        )
        .run(providerId, used.lastMs);
      used.isWritten = true;
    } catch {
      // The write is tried again in a minute. Its failure is not reported, because the writes of other methods report a
      // full disk.
    }
  }

  #run<T>(work: (db: SqliteDatabase) => T): T {
    try {
      return work(this.#db);
    } catch (error) {
      throw toStorageError(error, storeFile);
    }
  }
}

function openStoreFile(file: string, durability: Durability): SqliteDatabase {
  let db: SqliteDatabase | undefined;
  try {
    db = openDatabase({ file, durability });
    // SQLite must overwrite deleted data, because the address of a deleted provider in a private network reveals
    // something about that network.
    db.pragma("secure_delete = ON");
    migrate(db, migrations);
    return db;
  } catch (error) {
    db?.close();
    throw toStorageError(error, storeFile);
  }
}
