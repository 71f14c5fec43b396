import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";

export const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export interface MemoryItem {
  readonly key: string;
  readonly value: string;
}

/** Thrown if a stored value was changed, or belongs to another app, key or row. */
export class MemorySealBrokenError extends Error {
  constructor() {
    super("a stored value cannot be decrypted with its app's key");
    this.name = "SealBrokenError";
  }
}

/**
 * The encryption key of one app's memory: encrypts keys and values with AES-256-GCM, and computes keyed digests. Without it
 * the database cannot be decrypted, so deleting it makes a wipe final.
 */
export class AppKey {
  readonly #app: string;
  readonly #sealingKey: KeyObject;
  readonly #namingKey: KeyObject;
  readonly #ledgerKey: KeyObject;

  constructor(app: string, secret: Uint8Array) {
    this.#app = app;
    const derived = (use: string) =>
      createSecretKey(Buffer.from(hkdfSync("sha256", secret, app, `berth memory ${use}`, 32)));
    this.#sealingKey = derived("values");
    this.#namingKey = derived("names");
    this.#ledgerKey = derived("ledger");
  }

  /** Returns the name of an item in the database: a keyed digest of its key. */
  deriveItemName(key: string): Buffer {
    return createHmac("sha256", this.#namingKey).update(key).digest();
  }

  /**
   * Returns a keyed digest of a text as 64 hex digits, for the ledger. It proves the text while the app's key exists.
   * After a wipe, guesses of the text can no longer be compared with the digest.
   */
  computeLedgerHmac(text: string): string {
    return createHmac("sha256", this.#ledgerKey).update(text).digest("hex");
  }

  seal({ key, value }: MemoryItem): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#sealingKey, nonce);
    cipher.setAAD(this.#associatedData(this.deriveItemName(key)));
    const keyBytes = Buffer.from(key);
    const head = Buffer.alloc(2);
    head.writeUInt16BE(keyBytes.length);
    const sealed = [cipher.update(head), cipher.update(keyBytes), cipher.update(value, "utf8")];
    return Buffer.concat([nonce, ...sealed, cipher.final(), cipher.getAuthTag()]);
  }

  /** Decrypts an item. Throws MemorySealBrokenError if it was changed or belongs to another app or row. */
  unseal(name: Uint8Array, sealed: Buffer): MemoryItem {
    try {
      const decipher = createDecipheriv(
        "aes-256-gcm",
        this.#sealingKey,
        sealed.subarray(0, NONCE_BYTES),
        { authTagLength: TAG_BYTES },
      );
      decipher.setAAD(this.#associatedData(name));
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      const text = Buffer.concat([
        decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)),
        decipher.final(),
      ]);
      const keyEnd = 2 + text.readUInt16BE(0);
      return { key: text.toString("utf8", 2, keyEnd), value: text.toString("utf8", keyEnd) };
    } catch {
      throw new MemorySealBrokenError();
    }
  }

  /**
   * Returns the data that binds an encrypted value to its app and key, so that it cannot be moved to another app or
   * key.
   */
  #associatedData(name: Uint8Array): Buffer {
    return Buffer.concat([Buffer.from(`${this.#app}\0`), name]);
  }
}
