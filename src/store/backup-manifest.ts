import { existsSync } from "node:fs";
import Database from "better-sqlite3";
import { BerthError, NotFoundError } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";
import { BackupManifest } from "../resources/wire/backup.ts";

export const BACKUP_MANIFEST_TABLE = "backup_manifest";

const manifestValidator = new LazyValidator<BackupManifest>(BackupManifest);

/**
 * Returns the manifest of a backup file; null if an older Berth without manifests made the backup. Throws NotFoundError
 * if there is no such file, and `store_corrupt` if it is not an intact backup.
 */
export function readBackupManifest(file: string): BackupManifest | null {
  if (!existsSync(file)) throw new NotFoundError("there is no such backup file");
  const db = new Database(file, { readonly: true });
  try {
    return selectManifest(db);
  } catch {
    throw unreadableError();
  } finally {
    db.close();
  }
}

/** Reads the manifest; returns null if the backup has none. Throws `store_corrupt` for a manifest that is not valid. */
export function selectManifest(db: Database.Database): BackupManifest | null {
  const isThere = db
    .prepare<[string], number>("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?")
    .pluck()
    .get(BACKUP_MANIFEST_TABLE);
  if (isThere === undefined) return null;
  const text = db.prepare<[], string>(`SELECT json FROM ${BACKUP_MANIFEST_TABLE}`).pluck().get();
  if (text === undefined) return null;
  const manifest = parseJson(text);
  if (manifestValidator.isValid(manifest)) return manifest;
  throw unreadableError();
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unreadableError(): BerthError {
  return new BerthError("store_corrupt", "the backup file is damaged, or is not a backup of Berth");
}
