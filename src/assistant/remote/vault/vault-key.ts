import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";
import type { Credential } from "./port.ts";

export const MASTER_KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/**
 * The version of the encryption format and of its associated data. Each version decrypts only texts of the same
 * version.
 */
const FORMAT_VERSION = 1;

/**
 * The context of an encrypted text. It is authenticated as associated data, so that the text cannot be decrypted in
 * another context.
 */
export interface SealContext {
  readonly providerId: string;
  readonly origin: string;
  readonly kind: Credential["kind"];
  readonly setAtMs: number;
  readonly expiresAtMs: number | null;
}

/** The encrypted text was changed, moved or truncated. A wrong key is ruled out, because the key was checked before. */
export class CredentialSealBrokenError extends Error {
  constructor() {
    super("an encrypted credential cannot be decrypted");
    this.name = "SealBrokenError";
  }
}

/**
 * The keys of one vault, derived from the master key and the vault's id, so that vaults with the same master key have
 * different keys.
 */
export class VaultKey {
  readonly #sealing: KeyObject;
  readonly #check: Buffer;

  constructor(master: Uint8Array, vaultId: string) {
    const derived = (use: string) =>
      Buffer.from(hkdfSync("sha256", master, vaultId, `berth vault ${use}`, 32));
    this.#sealing = createSecretKey(derived("credentials"));
    this.#check = derived("check");
  }

  /**
   * A value that identifies the master key without revealing anything else about it: 32 bytes, stored in the database.
   */
  get checkValue(): Buffer {
    return Buffer.from(this.#check);
  }

  hasCheckValue(value: Uint8Array): boolean {
    return value.length === this.#check.length && timingSafeEqual(value, this.#check);
  }

  /** Encrypts a text with AES-256-GCM. Returns a random nonce of 96 bits, the ciphertext, and the tag. */
  seal(text: string, context: SealContext): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#sealing, nonce);
    cipher.setAAD(encodeSealContext(context));
    const sealed = cipher.update(text, "utf8");
    return Buffer.concat([nonce, sealed, cipher.final(), cipher.getAuthTag()]);
  }

  /** Decrypts a text that `seal` returned. Throws CredentialSealBrokenError. */
  open(sealed: Buffer, context: SealContext): string {
    try {
      const nonce = sealed.subarray(0, NONCE_BYTES);
      const decipher = createDecipheriv("aes-256-gcm", this.#sealing, nonce, {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(encodeSealContext(context));
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      const opened = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
      return Buffer.concat([opened, decipher.final()]).toString("utf8");
    } catch {
      // The library's error is not set as the cause, because its message has no useful information.
      throw new CredentialSealBrokenError();
    }
  }
}

function encodeSealContext({
  providerId,
  origin,
  kind,
  setAtMs,
  expiresAtMs,
}: SealContext): Buffer {
  return Buffer.from(
    JSON.stringify([
      "berth credential",
      FORMAT_VERSION,
      providerId,
      origin,
      kind,
      setAtMs,
      expiresAtMs,
    ]),
  );
}
