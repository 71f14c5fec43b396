import { createHmac } from "node:crypto";
import { BerthError } from "../base/errors.ts";
import { deriveKey, NONCE_BYTES, SealingKey, TAG_BYTES } from "../base/sealing-key.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { Leaves } from "./field-leaves.ts";
import type { SecretValues } from "./store.ts";

/** The version of the format of a sealed value: this number as one byte, the nonce, the tag, and the encrypted text. */
const FORMAT = 1;
const DATA = "/spec/data/";

/**
 * Stores the values of Secrets, sealed. The context of a value is the name of the Secret and the key of the value, so
 * that a value that was moved within the database cannot be opened.
 *
 * The spec of a Secret contains a fingerprint of each value instead. The fingerprint is an HMAC with a separate key: it
 * shows that a value has changed, but a reader of the database cannot verify a guess with it.
 */
export class SqliteSecretValues implements SecretValues {
  readonly #sealingKey: SealingKey;
  readonly #fingerprintKey: Buffer;
  readonly #put;
  readonly #remove;
  readonly #all;
  readonly #exists;

  constructor(db: SqliteDatabase, key: Buffer) {
    this.#sealingKey = new SealingKey(deriveKey(key, "", "berth secret values"));
    this.#fingerprintKey = deriveKey(key, "", "berth secret fingerprints");
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

  /** Seals a text that is not part of a Secret. It can only be opened with the same `label`. */
  sealText(label: string, text: string): Buffer {
    // The value of a Secret is sealed with the Secret's name. This text is sealed with "/", which no Secret can have as
    // its name, so the text cannot be opened as the value of a Secret.
    return this.#seal("/", label, text);
  }

  /**
   * Opens a text that `sealText` has sealed. Throws BerthError `store_corrupt`, whose message names the text by
   * `description`.
   */
  openText(label: string, sealed: Buffer, description: string): string {
    return this.#open("/", label, sealed, description);
  }

  reveal(name: string): Readonly<Record<string, string>> | undefined {
    if (this.#exists.get(name) === undefined) return undefined;
    return Object.fromEntries(
      this.#all.all(name).map(({ key, sealed }) => [key, this.#open(name, key, sealed)]),
    );
  }

  /** Returns the leaf fields of a Secret by JSON Pointer, with a fingerprint instead of each text below `spec.data`. */
  fingerprintLeaves(name: string, leaves: Leaves): Map<string, unknown> {
    return new Map(
      [...leaves].map(([pointer, value]) => [
        pointer,
        isSecretValue(pointer, value) ? this.#fingerprint(name, pointer, value) : value,
      ]),
    );
  }

  /**
   * Updates the sealed values of a Secret to the values in `spec.data`. `given` contains the plaintext of new values.
   */
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
    const sealed = this.#sealingKey.seal(value, createAssociatedData(name, key));
    const [nonce, tag] = [sealed.subarray(0, NONCE_BYTES), sealed.subarray(-TAG_BYTES)];
    const text = sealed.subarray(NONCE_BYTES, -TAG_BYTES);
    return Buffer.concat([Buffer.of(FORMAT), nonce, tag, text]);
  }

  #open(
    name: string,
    key: string,
    sealed: Buffer,
    what = `the value "${key}" of Secret ${name}`,
  ): string {
    const tagStart = 1 + NONCE_BYTES;
    const textStart = tagStart + TAG_BYTES;
    try {
      if (sealed[0] !== FORMAT || sealed.length < textStart) throw new Error("unknown format");
      const [nonce, tag] = [sealed.subarray(1, tagStart), sealed.subarray(tagStart, textStart)];
      const ordered = Buffer.concat([nonce, sealed.subarray(textStart), tag]);
      return this.#sealingKey.open(ordered, createAssociatedData(name, key)).toString("utf8");
    } catch (cause) {
      throw new BerthError("store_corrupt", `${what} cannot be opened`, {
        hint: "set the value again, or restore the last good backup with: berth restore FILE",
        cause,
      });
    }
  }
}

/** Returns a text that identifies the key of a database without revealing it. */
export function createKeyCheck(key: Buffer): string {
  return createHmac("sha256", deriveKey(key, "", "berth key check"))
    .update("berth")
    .digest("hex");
}

/** Returns true for a leaf that contains the text of a secret. */
export function isSecretValue(pointer: string, value: unknown): value is string {
  return pointer.startsWith(DATA) && typeof value === "string";
}

/**
 * Returns the key of a value from its pointer, without unescaping it. Valid keys contain no escaped characters. Keys
 * that are not validated yet only have to be different from each other.
 */
function getSecretKey(pointer: string): string {
  return pointer.slice(DATA.length);
}

function createAssociatedData(name: string, key: string): Buffer {
  return Buffer.from(JSON.stringify([name, key]), "utf8");
}
