import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { openSecureDeleteDatabase } from "../../../base/secure-delete-database.ts";
import type { Durability, Migration, SqliteDatabase } from "../../../base/sqlite.ts";
import type { Protection } from "../port.ts";
import type { Credential } from "./port.ts";

const migrations: readonly Migration[] = [
  `
  -- This table has one row. source and check_value describe the master key that encrypts all credentials;
  -- they are NULL as long as there are none.
  CREATE TABLE vault (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL,
    source      TEXT CHECK (source IN ('systemd-credential', 'secret-service', 'file')),
    check_value BLOB,
    CHECK ((source IS NULL) = (check_value IS NULL))
  ) STRICT;
  INSERT INTO vault (one, id) VALUES (1, lower(hex(randomblob(16))));

  CREATE TABLE credential (
    provider      TEXT PRIMARY KEY,
    origin        TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('key', 'oauth')),
    set_at_ms     INTEGER NOT NULL,
    expires_at_ms INTEGER,
    sealed        BLOB NOT NULL
  ) STRICT;
  `,
];

/**
 * The source of the master key, and a value that identifies the key. One master key encrypts all credentials of a
 * vault.
 */
export interface MasterRecord {
  readonly source: Protection["source"];
  readonly checkValue: Buffer;
}

export interface CredentialRow {
  readonly provider: string;
  readonly origin: string;
  readonly kind: Credential["kind"];
  readonly setAtMs: number;
  readonly expiresAtMs: number | null;
  readonly sealed: Buffer;
}

/**
 * `vault.db`, mode 0600, with the encrypted credentials. It does not contain the key. The file is separate from
 * `remote.db` for two reasons: rewriting it as a whole after each change must not slow down the use of providers, and
 * users can include it in a backup or leave it out. Every method throws SQLite's errors.
 */
export class VaultFile {
  readonly #db: SqliteDatabase;

  constructor(dir: string, durability: Durability) {
    const file = join(dir, "vault.db");
    // The file mode is set again, because a file that was restored from a backup may have another mode. SQLite creates
    // the write-ahead log with the mode of the database file.
    if (existsSync(file)) chmodSync(file, 0o600);
    // SQLite must overwrite deleted data at once, even if rewriting the file has to wait for another program.
    this.#db = openSecureDeleteDatabase({ file, durability }, migrations);
  }

  /** The random id of this vault, 32 hex digits. It is created with the file. */
  get vaultId(): string {
    const id = this.#db.prepare<[], string>("SELECT id FROM vault").pluck().get();
    if (id === undefined) throw new Error("the vault has no id");
    return id;
  }

  /**
   * Returns the record of the master key. Undefined if nothing is encrypted yet, so that any key may become the master
   * key.
   */
  masterRecord(): MasterRecord | undefined {
    return this.#db
      .prepare<[], MasterRecord>(
        "SELECT source, check_value AS checkValue FROM vault WHERE source IS NOT NULL",
      )
      .get();
  }

  get(provider: string): CredentialRow | undefined {
    return this.#db
      .prepare<[string], CredentialRow>(
        `SELECT provider, origin, kind, set_at_ms AS setAtMs, expires_at_ms AS expiresAtMs, sealed
         FROM credential WHERE provider = ?`,
      )
      .get(provider);
  }

  /**
   * Stores a credential and the record of the master key in one transaction. Both are on the disk when this returns.
   */
  put(row: CredentialRow, master: MasterRecord): void {
    this.#db
      .transaction(() => {
        this.#db
          .prepare("UPDATE vault SET source = ?, check_value = ?")
          .run(master.source, master.checkValue);
        this.#db
          .prepare(
            `INSERT INTO credential (provider, origin, kind, set_at_ms, expires_at_ms, sealed)
             VALUES (@provider, @origin, @kind, @setAtMs, @expiresAtMs, @sealed)
             ON CONFLICT (provider) DO UPDATE SET origin = excluded.origin, kind = excluded.kind,
               set_at_ms = excluded.set_at_ms, expires_at_ms = excluded.expires_at_ms,
               sealed = excluded.sealed`,
          )
          .run(row);
      })
      .immediate();
  }

  /**
   * Removes a provider's credential, and with the last credential also the record of the master key. Returns false if
   * the provider had no credential.
   */
  remove(provider: string): boolean {
    return this.#db
      .transaction(() => {
        const { changes } = this.#db
          .prepare("DELETE FROM credential WHERE provider = ?")
          .run(provider);
        this.#db
          .prepare(
            `UPDATE vault SET source = NULL, check_value = NULL
             WHERE NOT EXISTS (SELECT 1 FROM credential)`,
          )
          .run();
        return changes === 1;
      })
      .immediate();
  }

  /**
   * Rewrites the database, moves the write-ahead log into it and truncates the log, so that overwritten or deleted data
   * is in no file. (secure_delete alone leaves copies when SQLite moves rows between pages: 1 of 4,700 removed
   * credentials was still found in part.) Throws `SQLITE_BUSY` if another program reads or writes at the same time.
   */
  rewrite(): void {
    this.#db.exec("VACUUM");
    const rows: unknown = this.#db.pragma("wal_checkpoint(TRUNCATE)");
    const row: unknown = Array.isArray(rows) ? rows[0] : undefined;
    const isCut = typeof row === "object" && row !== null && "busy" in row && row.busy === 0;
    if (!isCut) throw new LogInUseError();
  }

  close(): void {
    this.#db.close();
  }
}

/**
 * Thrown if the write-ahead log cannot be truncated, because another program still reads an older state of the
 * database.
 */
class LogInUseError extends Error {
  readonly code = "SQLITE_BUSY_SNAPSHOT";
}
