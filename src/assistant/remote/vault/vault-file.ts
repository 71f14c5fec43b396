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

/** What a vault's first credential was sealed with, and so are all the others. */
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
 * `vault.db`, mode 0600: sealed credentials. Knows no key. It is a file of its own, beside `remote.db`, since
 * it is rewritten whole after each change, which must cost nothing while providers are in use, and can be
 * backed up, or left out of a backup, by itself. Every method throws what SQLite says.
 */
export class VaultFile {
  readonly #db: SqliteDatabase;

  constructor(dir: string, durability: Durability) {
    const file = join(dir, "vault.db");
    // One that was brought back from a backup may have other modes, which the log beside it would get too.
    if (existsSync(file)) chmodSync(file, 0o600);
    // Also where rewriting has to wait for another program, what is deleted is overwritten at once.
    this.#db = openSecureDeleteDatabase({ file, durability }, migrations);
  }

  /** Drawn when the file was made; 32 hex digits. */
  get vaultId(): string {
    const id = this.#db.prepare<[], string>("SELECT id FROM vault").pluck().get();
    if (id === undefined) throw new Error("the vault has no id");
    return id;
  }

  /** Undefined: nothing has been sealed, so any key may be the first. */
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

  /** Together with what it is sealed with, in one transaction; on the disk when it returns. */
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

  /** The last one takes along the record of what it was sealed with. False: there was none. */
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
   * Rewrites the database, moves the write-ahead log into it and cuts that to nothing, so that what was
   * overwritten or deleted is in no file. (secure_delete alone leaves copies where SQLite has moved rows
   * from page to page: a piece of 1 in 4,700 removed ones was found.) Throws `SQLITE_BUSY` where another program reads or writes at this time.
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

/** Another program reads an older state of the database, which needs the write-ahead log. */
class LogInUseError extends Error {
  readonly code = "SQLITE_BUSY_SNAPSHOT";
}
