import { createHmac } from "node:crypto";
import { deriveKey, SealingKey } from "../../../base/sealing-key.ts";

export interface MemoryItem {
  readonly key: string;
  readonly value: string;
}

/**
 * The encryption key of one app's memory: encrypts keys and values with AES-256-GCM, and computes keyed digests.
 * Without the key the app's values cannot be decrypted, so deleting the key makes a wipe final.
 */
export class AppKey {
  readonly #app: string;
  readonly #sealingKey: SealingKey;
  readonly #namingKey: Buffer;
  readonly #ledgerKey: Buffer;

  constructor(app: string, secret: Uint8Array) {
    this.#app = app;
    this.#sealingKey = new SealingKey(deriveKey(secret, app, "berth memory values"));
    this.#namingKey = deriveKey(secret, app, "berth memory names");
    this.#ledgerKey = deriveKey(secret, app, "berth memory ledger");
  }

  /** Returns the name of an item in the database: an HMAC of the item's key. */
  deriveItemName(key: string): Buffer {
    return createHmac("sha256", this.#namingKey).update(key).digest();
  }

  /**
   * Returns a keyed digest of a text as 64 hex digits, for the ledger. While the app's key exists, the digest proves
   * what the text was. After a wipe, guesses of the text can no longer be compared with the digest.
   */
  computeLedgerHmac(text: string): string {
    return createHmac("sha256", this.#ledgerKey).update(text).digest("hex");
  }

  seal({ key, value }: MemoryItem): Buffer {
    const keyBytes = Buffer.from(key);
    const head = Buffer.alloc(2);
    head.writeUInt16BE(keyBytes.length);
    const text = Buffer.concat([head, keyBytes, Buffer.from(value)]);
    return this.#sealingKey.seal(text, this.#associatedData(this.deriveItemName(key)));
  }

  /** Decrypts an item. Throws SealBrokenError if it was changed or belongs to another app or row. */
  unseal(name: Uint8Array, sealed: Buffer): MemoryItem {
    const text = this.#sealingKey.open(sealed, this.#associatedData(name));
    const keyEnd = 2 + text.readUInt16BE(0);
    return { key: text.toString("utf8", 2, keyEnd), value: text.toString("utf8", keyEnd) };
  }

  /**
   * Returns the data that binds an encrypted value to its app and key, so that it cannot be moved to another app or
   * key.
   */
  #associatedData(name: Uint8Array): Buffer {
    return Buffer.concat([Buffer.from(`${this.#app}\0`), name]);
  }
}
