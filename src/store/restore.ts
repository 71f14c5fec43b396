import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import Database from "better-sqlite3";
import { fsyncDirectorySync } from "../base/atomic-file.ts";
import { type Clock, systemClock, timestamp } from "../base/clock.ts";
import { BerthError, ConflictError, NotFoundError } from "../base/errors.ts";
import { SECRET_BYTES } from "../base/sealing-key.ts";
import { mapSqliteError, readSchemaVersion } from "../base/sqlite.ts";
import type { BackupManifest } from "../resources/wire/backup.ts";
import { BACKUP_APPLICATION_ID, BACKUP_KEY_TABLE } from "./backup.ts";
import { ARCHIVES_FOLDER, CERTIFICATES_FOLDER } from "./backup-content.ts";
import { takeDigest } from "./backup-digest.ts";
import { extractFiles } from "./backup-files.ts";
import { BACKUP_MANIFEST_TABLE, selectManifest } from "./backup-manifest.ts";
import { hasStoreSchema } from "./backup-schema.ts";
import { migrations } from "./migrations.ts";
import { getSecretKeyFile, writeSecretKey } from "./secret-key.ts";
import { acquireStoreLock } from "./store-lock.ts";

/**
 * A restore adds this to the last sequence number of the changes, so that later changes never reuse a number that a
 * watcher saw after the backup was made. No store makes that many changes between two backups.
 */
const SEQUENCE_JUMP = 1_000_000_000;

interface RestoreOptions {
  readonly dataDir: string;
  readonly file: string;
  readonly force?: boolean;
  readonly newInstance?: boolean;
  readonly clock?: Clock;
}

export interface RestoreResult {
  /** The manifest of the backup; null if an older Berth made the backup, which then contains only the store. */
  readonly manifest: BackupManifest | null;
  readonly instanceId: string;
  /** The name under which the data directory keeps the replaced store; null if there was no store. */
  readonly keptAs: string | null;
}

/**
 * Restores the store of a data directory from a backup file. The backup is checked before anything changes. Replacing
 * an existing store requires `force`. The old store is kept as `berth.db.before-restore-<time>`.
 *
 * Throws `store_locked` while Berth runs in that directory, NotFoundError (no such file), `store_corrupt` (the file is
 * damaged or is not a backup), or `wrong_state` (a newer Berth made the backup, or a store exists and `force` is not
 * set).
 *
 * With `newInstance`, the restored store gets a new identity, and does not manage the containers, networks, volumes and
 * images of the instance in the backup.
 */
export function restoreStore(options: RestoreOptions): RestoreResult {
  try {
    return restore(options);
  } catch (error) {
    throw mapSqliteError(error);
  }
}

function restore(options: RestoreOptions): RestoreResult {
  const { dataDir } = options;
  const clock = options.clock ?? systemClock;
  if (!existsSync(options.file)) throw new NotFoundError("there is no such backup file");
  assertBackupFile(options.file);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  assertNotStaged(options.file, dataDir);
  const lock = acquireStoreLock(dataDir, clock);
  try {
    const store = join(dataDir, "berth.db");
    const exists = existsSync(store);
    if (exists && !options.force) {
      throw new ConflictError("wrong_state", "the data directory already contains a store", {
        hint: "add --force to replace the store; the old one is kept in the same folder",
      });
    }
    const staged = getStagedFile(dataDir);
    const files = getStagedFolder(dataDir);
    rmSync(files, { recursive: true, force: true });
    const { key, paths, manifest, instanceId } = stageBackup(
      resolve(options.file),
      staged,
      files,
      options.newInstance === true,
    );
    const suffix = `before-restore-${timestamp(clock.now()).replaceAll(/[:.]/g, "-")}`;
    // If the restore is interrupted from here on, Berth finds the staged file, and refuses to start instead of creating
    // an empty store.
    setAside(store, suffix);
    if (existsSync(getSecretKeyFile(dataDir))) {
      renameSync(getSecretKeyFile(dataDir), `${getSecretKeyFile(dataDir)}.${suffix}`);
    }
    writeSecretKey(dataDir, key, "full");
    putFiles(dataDir, files, paths, suffix);
    renameSync(staged, store);
    fsyncDirectorySync(dataDir);
    return { manifest, instanceId, keptAs: exists ? `berth.db.${suffix}` : null };
  } finally {
    lock.release();
  }
}

/**
 * Throws for the temporary file of an interrupted restore, which the next restore removes before it copies its file.
 */
function assertNotStaged(file: string, dataDir: string): void {
  const staged = getStagedFile(dataDir);
  if (!existsSync(staged) || realpathSync(file) !== realpathSync(staged)) return;
  throw new BerthError("invalid_request", "the file is a leftover of an interrupted restore", {
    hint: "name the backup itself; if it is lost, move this file to another folder first",
  });
}

/** Throws if an interrupted restore has moved the old store away. Berth would otherwise create an empty store. */
export function assertNoInterruptedRestore(dataDir: string): void {
  if (!existsSync(getStagedFile(dataDir)) || existsSync(join(dataDir, "berth.db"))) return;
  throw new BerthError("store_corrupt", "a restore of this data directory was interrupted", {
    hint: "run the restore again: berth restore FILE",
  });
}

function getStagedFile(dataDir: string): string {
  return join(dataDir, "berth.db.restoring");
}

function getStagedFolder(dataDir: string): string {
  return join(dataDir, "restoring");
}

/** Moves the staged files into the data directory. The previous certificates are kept next to the new ones. */
function putFiles(dataDir: string, staged: string, paths: readonly string[], suffix: string): void {
  const archives = paths.filter((path) => path.startsWith(`${ARCHIVES_FOLDER}/`));
  if (archives.length > 0)
    mkdirSync(join(dataDir, ARCHIVES_FOLDER), { recursive: true, mode: 0o700 });
  for (const path of archives) renameSync(join(staged, path), join(dataDir, path));
  if (archives.length < paths.length) {
    const certificates = join(dataDir, CERTIFICATES_FOLDER);
    mkdirSync(dirname(certificates), { recursive: true, mode: 0o700 });
    if (existsSync(certificates)) renameSync(certificates, `${certificates}.${suffix}`);
    renameSync(join(staged, CERTIFICATES_FOLDER), certificates);
    fsyncDirectorySync(dirname(certificates));
  }
  rmSync(staged, { recursive: true, force: true });
}

interface StagedBackup {
  readonly key: Buffer;
  readonly paths: readonly string[];
  readonly manifest: BackupManifest | null;
  readonly instanceId: string;
}

/**
 * Copies the backup, checks the copy, and turns it into a store: extracts the archives and certificates to the folder
 * `files`, and then removes these files, the secret key and the manifest from the copy.
 */
function stageBackup(
  file: string,
  staged: string,
  files: string,
  newInstance: boolean,
): StagedBackup {
  for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(staged + suffix, { force: true });
  let db: Database.Database | undefined;
  try {
    copyFileSync(file, staged);
    chmodSync(staged, 0o600);
    db = new Database(staged);
    db.pragma("synchronous = FULL");
    db.pragma("trusted_schema = OFF");
    const key = validateBackup(db);
    db.pragma("secure_delete = ON");
    if (!takeDigest(db))
      throw invalidBackupError("the backup file is damaged: a value has changed");
    const manifest = selectManifest(db);
    const paths = extractFiles(db, files);
    if (newInstance) giveNewIdentity(db);
    const instanceId = readInstanceId(db);
    db.exec(`
      BEGIN;
      DROP TABLE ${BACKUP_KEY_TABLE};
      DROP TABLE IF EXISTS ${BACKUP_MANIFEST_TABLE};
      DELETE FROM changes;
      UPDATE sqlite_sequence SET seq = seq + ${SEQUENCE_JUMP} WHERE name = 'changes';
      PRAGMA application_id = 0;
      COMMIT;`);
    // VACUUM frees the space of the files that were extracted from the backup.
    if (paths.length > 0) db.exec("VACUUM");
    db.close();
    return { key, paths, manifest, instanceId };
  } catch (error) {
    db?.close();
    rmSync(staged, { force: true });
    rmSync(files, { recursive: true, force: true });
    throw mapSqliteError(error);
  }
}

/**
 * The id of the instance is a part of the names of containers and images, so a backup is refused if its id has another
 * form.
 */
function readInstanceId(db: Database.Database): string {
  const id: unknown = db.prepare("SELECT value FROM meta WHERE key = 'instanceId'").pluck().get();
  if (typeof id === "string" && /^[0-9a-f]{8}$/.test(id)) return id;
  throw invalidBackupError("the backup file is damaged: it has no id of an instance");
}

/**
 * Gives the restored store another instance id. The images and ports of the old id are removed from the store, because
 * the instance with the old id may still run on the same machine.
 */
function giveNewIdentity(db: Database.Database): void {
  db.prepare<[string]>("UPDATE meta SET value = ? WHERE key = 'instanceId'").run(
    randomBytes(4).toString("hex"),
  );
  db.exec("DELETE FROM owned_images; DELETE FROM port_leases;");
}

/**
 * Checks that the file is a backup before it is copied or opened. A file that is not a backup gets another error than
 * a damaged backup.
 */
function assertBackupFile(file: string): void {
  const header = Buffer.alloc(APPLICATION_ID_OFFSET + 4);
  if (statSync(file).isFile()) {
    const descriptor = openSync(file, "r");
    try {
      readSync(descriptor, header, 0, header.length, 0);
    } finally {
      closeSync(descriptor);
    }
  }
  const isDatabase = header.toString("latin1", 0, SQLITE_MAGIC.length) === SQLITE_MAGIC;
  if (isDatabase && header.readUInt32BE(APPLICATION_ID_OFFSET) === BACKUP_APPLICATION_ID) return;
  throw invalidBackupError("the file is not a backup of Berth");
}

/** The text with which every SQLite file begins. */
const SQLITE_MAGIC = "SQLite format 3\0";
/** The offset of the application id in an SQLite file. */
const APPLICATION_ID_OFFSET = 68;

function invalidBackupError(message: string): BerthError {
  return new BerthError("store_corrupt", message, { hint: "choose another backup file" });
}

function validateBackup(db: Database.Database): Buffer {
  let applicationId: unknown;
  let integrity: unknown;
  try {
    applicationId = db.pragma("application_id", { simple: true });
    integrity = db.pragma("integrity_check(1)", { simple: true });
  } catch {
    throw invalidBackupError("the backup file is damaged");
  }
  if (applicationId !== BACKUP_APPLICATION_ID)
    throw invalidBackupError("the file is not a backup of Berth");
  if (integrity !== "ok") throw invalidBackupError("the backup file is damaged");
  const version = readSchemaVersion(db);
  if (version > migrations.length) {
    throw new BerthError(
      "wrong_state",
      `the backup was made by a newer version of Berth (schema ${version}; this version knows ${migrations.length})`,
      { hint: "restore the backup with the version of Berth that made it" },
    );
  }
  if (!hasStoreSchema(db, version))
    throw invalidBackupError("the backup file is damaged: it does not have the tables of Berth");
  const key = db.prepare<[], Buffer>(`SELECT key FROM ${BACKUP_KEY_TABLE}`).pluck().get();
  if (!Buffer.isBuffer(key) || key.length !== SECRET_BYTES) {
    throw invalidBackupError("the backup file lacks the key of its secrets");
  }
  return key;
}

/**
 * Renames the store and its write-ahead log, which may contain the last commits. A log without a store, which an
 * interrupted restore has left, is moved too. Otherwise SQLite would replay it into the new store.
 */
function setAside(store: string, suffix: string): void {
  for (const part of ["", "-wal", "-shm"]) {
    if (existsSync(store + part)) renameSync(store + part, `${store}.${suffix}${part}`);
  }
}
