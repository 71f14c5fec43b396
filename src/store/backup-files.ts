import { createHash } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import type Database from "better-sqlite3";
import { BerthError, getErrorCode } from "../base/errors.ts";
import { ARCHIVES_FOLDER, type BackupFile, CERTIFICATES_FOLDER } from "./backup-content.ts";

const FILES_TABLE = "backup_files";
const CHUNKS_TABLE = "backup_chunks";
/**
 * The size of a chunk of a file in a backup. Chunks are small, because the server answers requests only between
 * two chunks.
 */
const CHUNK_BYTES = 1024 * 1024;

/** Matches the paths that a restore may write, regardless of the content of a backup file. */
const pathPattern = new RegExp(
  `^(${ARCHIVES_FOLDER}/[0-9a-f]{64}\\.archive|${CERTIFICATES_FOLDER}(/(?!\\.\\.?(/|$))[^/\\0]+)+)$`,
);

/** Copies files of the data directory into a backup. Files that were removed after the listing are left out. */
export async function addFiles(
  copy: Database.Database,
  dataDir: string,
  files: readonly BackupFile[],
): Promise<void> {
  copy.exec(`
    CREATE TABLE ${FILES_TABLE} (path TEXT PRIMARY KEY, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL) STRICT;
    CREATE TABLE ${CHUNKS_TABLE} (path TEXT NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL,
      PRIMARY KEY (path, number)) STRICT;`);
  const addFile = copy.prepare<[string, number, string]>(
    `INSERT INTO ${FILES_TABLE} (path, bytes, sha256) VALUES (?, ?, ?)`,
  );
  const addChunk = copy.prepare<[string, number, Buffer]>(
    `INSERT INTO ${CHUNKS_TABLE} (path, number, data) VALUES (?, ?, ?)`,
  );
  for (const { path } of files) {
    const handle = await openUnlessMissing(join(dataDir, path));
    if (!handle) continue;
    try {
      const hash = createHash("sha256");
      const chunk = Buffer.alloc(CHUNK_BYTES);
      let bytes = 0;
      for (let number = 0; ; number += 1) {
        const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, null);
        if (bytesRead === 0) break;
        const data = chunk.subarray(0, bytesRead);
        hash.update(data);
        addChunk.run(path, number, data);
        bytes += bytesRead;
      }
      addFile.run(path, bytes, hash.digest("hex"));
    } finally {
      await handle.close();
    }
  }
}

/**
 * Writes the files of a backup below `folder`, removes them from the database, and returns their paths. Throws
 * `store_corrupt` if a file is damaged.
 */
export function extractFiles(db: Database.Database, folder: string): string[] {
  const isThere = db
    .prepare<[string], number>("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?")
    .pluck()
    .get(FILES_TABLE);
  if (isThere === undefined) return [];
  const files = db
    .prepare<[], { path: string; bytes: number; sha256: string }>(
      `SELECT path, bytes, sha256 FROM ${FILES_TABLE} ORDER BY path`,
    )
    .all();
  const selectChunks = db
    .prepare<[string], Buffer>(`SELECT data FROM ${CHUNKS_TABLE} WHERE path = ? ORDER BY number`)
    .pluck();
  for (const { path, sha256 } of files) {
    if (!pathPattern.test(path)) throw damagedError();
    const handle = createFile(join(folder, path));
    try {
      const hash = createHash("sha256");
      for (const data of selectChunks.iterate(path)) {
        hash.update(data);
        writeSync(handle, data);
      }
      if (hash.digest("hex") !== sha256) throw damagedError();
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  }
  db.exec(`DROP TABLE ${CHUNKS_TABLE}; DROP TABLE ${FILES_TABLE};`);
  return files.map(({ path }) => path);
}

/** The errors of the system for a path that is too long, or that goes through a file or ends at a folder. */
const impossiblePathCodes = ["ENAMETOOLONG", "ENOTDIR", "EEXIST", "EISDIR"];

/** Creates a file and the folders around it. Throws `store_corrupt` for a path that no backup of a real folder has. */
function createFile(file: string): number {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    return openSync(file, "wx", 0o600);
  } catch (error) {
    throw impossiblePathCodes.includes(String(getErrorCode(error))) ? damagedError() : error;
  }
}

function damagedError(): BerthError {
  return new BerthError(
    "store_corrupt",
    "the backup file is damaged: one of its files is not whole",
    {
      hint: "choose another backup file",
    },
  );
}

async function openUnlessMissing(file: string): Promise<FileHandle | undefined> {
  try {
    return await open(file, "r");
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
