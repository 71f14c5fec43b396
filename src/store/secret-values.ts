import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { BerthError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { Leaves } from "./field-leaves.ts";
import type { SecretValues } from "./store.ts";

const FORMAT = 1;
/** What NIST SP 800-38D asks of GCM: a nonce of 96 bits, a tag of 128. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const DATA = "/spec/data/";

/**
 * Values of Secrets, sealed with AES-256-GCM. The name and the key of a value are its associated
 * data, so that a value moved to another place in the database does not open there.
 *
 * The spec of a Secret holds a fingerprint of each value instead: an HMAC under a key of its own, so
 * that a changed value is noticed and a guessed one cannot be confirmed from the file alone.
 */
export class SqliteSecretValues implements SecretValues {
  readonly #sealKey: Buffer;
  readonly #fingerprintKey: Buffer;
  readonly #put;
  readonly #remove;
  readonly #all;
  readonly #exists;

  constructor(db: SqliteDatabase, key: Buffer) {
    this.#sealKey = deriveKey(key, "berth secret values");
    this.#fingerprintKey = deriveKey(key, "berth secret fingerprints");
    this.#put = db.prepare<[string, string, Buffer]>(
      "INSERT INTO secret_values (name, key, sealed) VALUES (?, ?, ?) ON CONFLICT (name, key) DO UPDATE SET sealed = excluded.sealed",
    );
    this.#remove = db.prepare<[string, string]>(
      "DELETE FROM secret_values WHERE name = ? AND key = ?",
    );
    this.#all = db.prepare<[string], { key: string; sealed: Buffer }>(
      "SELECT key, sealed FROM secret_values WHERE name = ? ORDER BY key",
    );
    this.#exists = db
      .prepare<[string], number>("SELECT 1 FROM resources WHERE kind = 'Secret' AND name = ?")
      .pluck();
  }

  /** Seals a text that belongs to no Secret. `place` tells where it stands; it opens there only. */
  sealText(label: string, text: string): Buffer {
    // No Secret has a name with a slash in it.
    return this.#seal("/", label, text);
  }

  /** Throws BerthError `store_corrupt`, which calls the text `what`. */
  openText(label: string, sealed: Buffer, description: string): string {
    return this.#open("/", label, sealed, description);
  }

  reveal(name: string): Readonly<Record<string, string>> | undefined {
    if (this.#exists.get(name) === undefined) return undefined;
    return Object.fromEntries(
      this.#all.all(name).map(({ key, sealed }) => [key, this.#open(name, key, sealed)]),
    );
  }

  /** The leaves of a Secret's document with a fingerprint in place of each text under `spec.data`. */
  fingerprintLeaves(name: string, leaves: Leaves): Map<string, unknown> {
    return new Map(
      [...leaves].map(([pointer, value]) => [
        pointer,
        isSecretValue(pointer, value) ? this.#fingerprint(name, pointer, value) : value,
      ]),
    );
  }

  /** Makes the sealed values of a Secret those of `spec.data`. `given` holds the plaintext of what is new. */
  store(name: string, before: Leaves, after: Leaves, given: Leaves): void {
    for (const pointer of before.keys()) {
      if (pointer.startsWith(DATA) && !after.has(pointer))
        this.#remove.run(name, getSecretKey(pointer));
    }
    for (const [pointer, fingerprint] of after) {
      if (!pointer.startsWith(DATA) || before.get(pointer) === fingerprint) continue;
      const value = given.get(pointer);
      if (typeof value === "string") {
        const key = getSecretKey(pointer);
        this.#put.run(name, key, this.#seal(name, key, value));
      }
    }
  }

  #fingerprint(name: string, pointer: string, value: string): string {
    const text = JSON.stringify([name, getSecretKey(pointer), value]);
    return `hmac-sha256:${createHmac("sha256", this.#fingerprintKey).update(text).digest("hex")}`;
  }

  #seal(name: string, key: string, value: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#sealKey, nonce);
    cipher.setAAD(createAssociatedData(name, key));
    const text = Buffer.concat([cipher.update(value, "utf8"), cipher.final()]);
    return Buffer.concat([Buffer.of(FORMAT), nonce, cipher.getAuthTag(), text]);
  }

  #open(
    name: string,
    key: string,
    sealed: Buffer,
    what = `the value "${key}" of Secret ${name}`,
  ): string {
    const textStart = 1 + NONCE_BYTES + TAG_BYTES;
    try {
      if (sealed[0] !== FORMAT || sealed.length < textStart) throw new Error("unknown format");
      const decipher = createDecipheriv(
        "aes-256-gcm",
        this.#sealKey,
        sealed.subarray(1, 1 + NONCE_BYTES),
        { authTagLength: TAG_BYTES },
      );
      decipher.setAAD(createAssociatedData(name, key));
      decipher.setAuthTag(sealed.subarray(1 + NONCE_BYTES, textStart));
      return Buffer.concat([
        decipher.update(sealed.subarray(textStart)),
        decipher.final(),
      ]).toString("utf8");
    } catch (cause) {
      throw new BerthError("store_corrupt", `${what} cannot be opened`, {
        hint: "set it again, or bring back the last good copy with: berth restore FILE",
        cause,
      });
    }
  }
}

/** Says which key a database belongs to without giving the key away. */
export function createKeyCheck(key: Buffer): string {
  return createHmac("sha256", deriveKey(key, "berth key check")).update("berth").digest("hex");
}

/** True for a leaf that holds the text of a secret. */
export function isSecretValue(pointer: string, value: unknown): value is string {
  return pointer.startsWith(DATA) && typeof value === "string";
}

/** Keys of secrets hold no character that a pointer escapes, once validated; before that they only need to differ. */
function getSecretKey(pointer: string): string {
  return pointer.slice(DATA.length);
}

function createAssociatedData(name: string, key: string): Buffer {
  return Buffer.from(JSON.stringify([name, key]), "utf8");
}

function deriveKey(key: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", key, "", purpose, 32));
}
