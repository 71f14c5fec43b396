import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { BerthError } from "../base/errors.ts";
import { type Durability, fsyncDirectorySync } from "../base/sqlite.ts";

export const SECRET_KEY_BYTES = 32;

export function getSecretKeyFile(dataDir: string): string {
  return join(dataDir, "secret.key");
}

/**
 * Returns the key of this data directory, or undefined if there is none yet. Removes the access of other users to the
 * file. Throws `store_corrupt` if the key is incomplete.
 */
export function readSecretKey(dataDir: string): Buffer | undefined {
  const file = getSecretKeyFile(dataDir);
  if (!existsSync(file)) return undefined;
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  const key = readFileSync(file);
  if (key.length !== SECRET_KEY_BYTES) {
    throw new BerthError("store_corrupt", "the key of the secrets (secret.key) is damaged", {
      hint: "put the right file back, or restore the last good backup with: berth restore FILE",
    });
  }
  return key;
}

export function generateSecretKey(): Buffer {
  return randomBytes(SECRET_KEY_BYTES);
}

/** Writes a temporary file with mode 0600 and renames it, so that a crash leaves either the old key or the new one. */
export function writeSecretKey(dataDir: string, key: Buffer, durability: Durability): void {
  const file = getSecretKeyFile(dataDir);
  const partial = `${file}.partial`;
  const handle = openSync(partial, "w", 0o600);
  try {
    writeSync(handle, key);
    if (durability === "full") fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  renameSync(partial, file);
  if (durability === "full") fsyncDirectorySync(dirname(file));
}
