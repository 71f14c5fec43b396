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

/** A stored text that does not belong to this key, this app or this place, or that was changed. */
export class MemorySealBrokenError extends Error {
  constructor() {
    super("a stored value does not open with its app's key");
    this.name = "SealBrokenError";
  }
}

/**
 * The key of one app's memory, and what it does: AES-256-GCM over key and value, and keyed digests. Whoever
 * has the database without this has nothing, which is what makes a wipe final.
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

  /** Where an item stands in the database: always the same for a key, and tells nothing of it. */
  deriveItemName(key: string): Buffer {
    return createHmac("sha256", this.#namingKey).update(key).digest();
  }

  /**
   * For the ledger: shows for as long as the memory is there that it was this text, and after a wipe
   * cannot even be tried against guesses. 64 hex digits.
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

  /** Throws SealBrokenError. */
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

  /** A value that was moved to another app or another key does not open there. */
  #associatedData(name: Uint8Array): Buffer {
    return Buffer.concat([Buffer.from(`${this.#app}\0`), name]);
  }
}
