import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { replaceFileSync } from "../base/atomic-file.ts";
import { BerthError } from "../base/errors.ts";
import { SECRET_BYTES } from "../base/sealing-key.ts";
import type { Durability } from "../base/sqlite.ts";

export function getSecretKeyFile(dataDir: string): string {
  return join(dataDir, "secret.key");
}

/**
 * Returns the key of this data directory, or undefined if there is none yet. Removes the access of other users to the
 * key's file. Throws `store_corrupt` if the key is incomplete.
 */
export function readSecretKey(dataDir: string): Buffer | undefined {
  const file = getSecretKeyFile(dataDir);
  if (!existsSync(file)) return undefined;
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  const key = readFileSync(file);
  if (key.length !== SECRET_BYTES) {
    throw new BerthError("store_corrupt", "the key of the secrets (secret.key) is damaged", {
      hint: "put the right key file back, or restore the last good backup with: berth restore FILE",
    });
  }
  return key;
}

export function generateSecretKey(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** Writes the key so that a crash leaves either the old key or the new one. */
export function writeSecretKey(dataDir: string, key: Buffer, durability: Durability): void {
  replaceFileSync(getSecretKeyFile(dataDir), key, { isFlushed: durability === "full" });
}
