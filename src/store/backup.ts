import { randomBytes } from "node:crypto";
import { chmodSync, closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname, resolve } from "node:path";
import Database from "better-sqlite3";
import { fsyncDirectorySync } from "../base/atomic-file.ts";
import { BerthError } from "../base/errors.ts";
import { mapSqliteError, type SqliteDatabase } from "../base/sqlite.ts";
import type { BackupContent } from "./backup-content.ts";
import { addDigest } from "./backup-digest.ts";
import { addFiles } from "./backup-files.ts";
import { BACKUP_MANIFEST_TABLE } from "./backup-manifest.ts";

/** Table for the key of the secrets in a backup; a store never has this table. */
export const BACKUP_KEY_TABLE = "backup_key";
/** The application id in the SQLite header of a backup of Berth: "Brth" in ASCII. */
export const BACKUP_APPLICATION_ID = 0x42727468;

/**
 * Copies the whole store into one file (mode 0600) while it is in use. Adds a manifest, and the files of the data
 * directory that a restore on another machine needs. The backup contains the key of the secrets and the keys of the
 * certificates, so anyone who can read the file can read all of these.
 *
 * The backup is written to a temporary file and renamed, so that `file` is never incomplete.
 */
export async function backupStore(options: {
  readonly db: SqliteDatabase;
  readonly key: Buffer;
  readonly dataDir: string;
  readonly findContent: () => Promise<BackupContent>;
  readonly file: string;
}): Promise<void> {
  const { db, key, dataDir, findContent } = options;
  const target = resolve(options.file);
  if (!existsSync(dirname(target))) {
    throw new BerthError("invalid_request", "the folder of the backup file does not exist", {
      hint: "create the folder first, or choose another file",
    });
  }
  if (target === resolve(db.name)) {
    throw new BerthError("invalid_request", "a backup cannot replace the store itself", {
      hint: "choose another file, preferably on another disk",
    });
  }
  const partial = `${target}.partial-${randomBytes(4).toString("hex")}`;
  try {
    closeSync(openSync(partial, "wx", 0o600));
    await db.backup(partial);
    await addContent(partial, key, dataDir, await findContent());
    syncFile(partial);
    renameSync(partial, target);
    fsyncDirectorySync(dirname(target));
  } catch (error) {
    for (const left of [partial, `${partial}-wal`, `${partial}-shm`, `${partial}-journal`]) {
      rmSync(left, { force: true });
    }
    throw mapSqliteError(error);
  }
}

async function addContent(
  file: string,
  key: Buffer,
  dataDir: string,
  { files, manifest }: BackupContent,
): Promise<void> {
  const copy = new Database(file);
  try {
    // With these settings the backup is one file without a write-ahead log, and no write flushes it: `backupStore`
    // flushes the file once at the end.
    copy.pragma("journal_mode = DELETE");
    copy.pragma("synchronous = OFF");
    copy.exec(`CREATE TABLE ${BACKUP_MANIFEST_TABLE} (json TEXT NOT NULL) STRICT`);
    copy
      .prepare<[string]>(`INSERT INTO ${BACKUP_MANIFEST_TABLE} (json) VALUES (?)`)
      .run(JSON.stringify(manifest));
    addDigest(copy);
    await addFiles(copy, dataDir, files);
    copy.exec(`CREATE TABLE ${BACKUP_KEY_TABLE} (key BLOB NOT NULL) STRICT`);
    copy.prepare<[Buffer]>(`INSERT INTO ${BACKUP_KEY_TABLE} (key) VALUES (?)`).run(key);
    copy.pragma(`application_id = ${BACKUP_APPLICATION_ID}`);
  } finally {
    copy.close();
  }
  chmodSync(file, 0o600);
}

function syncFile(file: string): void {
  const handle = openSync(file, "r+");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
