import { createHash } from "node:crypto";
import type Database from "better-sqlite3";

const DIGEST_TABLE = "backup_digest";

/** Writes the digest of a backup into it. The rows of the store do not change afterwards. */
export function addDigest(db: Database.Database): void {
  const digest = digestRows(db);
  db.exec(`CREATE TABLE ${DIGEST_TABLE} (sha256 TEXT NOT NULL) STRICT`);
  db.prepare<[string]>(`INSERT INTO ${DIGEST_TABLE} (sha256) VALUES (?)`).run(digest);
}

/**
 * Removes the digest from a backup. Returns true if the digest matches the rows of the backup, or if the backup
 * has no digest because an older Berth made it. The digest is needed in addition to SQLite's own integrity check,
 * which does not detect a changed byte in a value.
 */
export function takeDigest(db: Database.Database): boolean {
  const isThere = db
    .prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?")
    .pluck()
    .get(DIGEST_TABLE);
  if (isThere === undefined) return true;
  const digest: unknown = db.prepare(`SELECT sha256 FROM ${DIGEST_TABLE}`).pluck().get();
  db.exec(`DROP TABLE ${DIGEST_TABLE}`);
  return digest === digestRows(db);
}

/** Computes the sha256 of the rows of all tables that belong to the store. */
function digestRows(db: Database.Database): string {
  const hash = createHash("sha256");
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'backup\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all();
  for (const table of tables) {
    hash.update(`${JSON.stringify(table)}\n`);
    // NOT INDEXED makes SQLite return the rows in the order of the table, whatever indexes it has.
    const quoted = `"${table.replaceAll('"', '""')}"`;
    const rows = db.prepare<[], unknown[]>(`SELECT * FROM ${quoted} NOT INDEXED`).raw();
    for (const row of rows.iterate()) hash.update(`${JSON.stringify(row)}\n`);
  }
  return hash.digest("hex");
}
