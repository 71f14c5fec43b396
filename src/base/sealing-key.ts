import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { RandomBytes } from "./random-bytes.ts";

/** The length of every secret that keys are derived from. */
export const SECRET_BYTES = 32;
/** The length of the nonce. NIST SP 800-38D recommends a nonce of 96 bits and a tag of 128 bits for GCM. */
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;

/** Thrown if a sealed text was changed, truncated, or sealed with another key or in another context. */
export class SealBrokenError extends Error {
  constructor() {
    super("a sealed text cannot be opened");
    this.name = "SealBrokenError";
  }
}

/** Derives a key of 32 bytes for one purpose. Another salt, such as the id of a vault, gives another key. */
export function deriveKey(secret: Uint8Array, salt: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, salt, purpose, 32));
}

/**
 * Seals texts with AES-256-GCM. The context of a text, such as the name of its row, is authenticated: a text that was
 * moved to another context cannot be opened.
 */
export class SealingKey {
  readonly #key: KeyObject;
  readonly #nonces = new RandomBytes();

  constructor(key: Uint8Array) {
    this.#key = createSecretKey(key);
  }

  /** Seals a text. Returns a random nonce, the ciphertext, and the tag. */
  seal(text: string | Uint8Array, context: Uint8Array): Buffer {
    const nonce = this.#nonces.take(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce);
    cipher.setAAD(context);
    const sealed = cipher.update(typeof text === "string" ? Buffer.from(text) : text);
    // In GCM, the last step returns no bytes: it computes the tag.
    cipher.final();
    return Buffer.concat([nonce, sealed, cipher.getAuthTag()]);
  }

  /** Opens a text that `seal` has sealed in the same context. Throws SealBrokenError for any other text. */
  open(sealed: Buffer, context: Uint8Array): Buffer {
    try {
      const nonce = sealed.subarray(0, NONCE_BYTES);
      const options = { authTagLength: TAG_BYTES };
      const decipher = createDecipheriv("aes-256-gcm", this.#key, nonce, options);
      decipher.setAAD(context);
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      const text = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
      // In GCM, the last step returns no bytes: it compares the tag.
      decipher.final();
      return text;
    } catch {
      // The error of `node:crypto` is not set as the cause, because its message does not tell why the text cannot be
      // opened.
      throw new SealBrokenError();
    }
  }
}
