import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { openSecureDeleteDatabase } from "../../../base/secure-delete-database.ts";
import type { Durability, Migration, SqliteDatabase } from "../../../base/sqlite.ts";
import type { Protection } from "../port.ts";
import type { Credential } from "./port.ts";

const migrations: readonly Migration[] = [
  `
  -- One row. Source and check value: of the master key that everything in credential is sealed with;
  -- NULL as long as nothing has been sealed.
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

/** The source of the master key, and a value that identifies the key. All credentials of a vault have the same key. */
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
 * `vault.db`, mode 0600, with the encrypted credentials; it knows no key. It is separate from `remote.db`, because it
 * is rewritten as a whole after each change, which must not slow down the use of providers, and because it can be
 * included in a backup, or not, on its own. Every method throws SQLite's errors.
 */
export class VaultFile {
  readonly #db: SqliteDatabase;

  constructor(dir: string, durability: Durability) {
    const file = join(dir, "vault.db");
    // A file that was restored from a backup may have another mode, which its write-ahead log would copy.
    if (existsSync(file)) chmodSync(file, 0o600);
    // Deleted data is overwritten at once, even if rewriting the file must wait for another program.
    this.#db = openSecureDeleteDatabase({ file, durability }, migrations);
  }

  /** Random, created with the file; 32 hex digits. */
  get vaultId(): string {
    const id = this.#db.prepare<[], string>("SELECT id FROM vault").pluck().get();
    if (id === undefined) throw new Error("the vault has no id");
    return id;
  }

  /** Undefined if nothing is encrypted yet, so that any key may be the first. */
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

  /** Stores the credential with its key record in one transaction; both are on the disk when this returns. */
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

  /** Removing the last credential also removes the key record. Returns false if there was none. */
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

/** Another program is reading an older state of the database, which needs the write-ahead log. */
class LogInUseError extends Error {
  readonly code = "SQLITE_BUSY_SNAPSHOT";
}
