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
/** Of what is sealed and of what it is bound to; another number opens nothing that was sealed with this one. */
const FORMAT_VERSION = 1;

/** What a sealed text belongs to: anywhere else, or with other words beside it, it does not open. */
export interface SealContext {
  readonly providerId: string;
  readonly origin: string;
  readonly kind: Credential["kind"];
  readonly setAtMs: number;
  readonly expiresAtMs: number | null;
}

/** A sealed text that was changed, moved or cut; the key itself has been checked before. */
export class CredentialSealBrokenError extends Error {
  constructor() {
    super("a sealed credential does not open");
    this.name = "SealBrokenError";
  }
}

/**
 * What one vault makes of the master key. Derived with the vault's own id, so that vaults which share a
 * master key share nothing else.
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

  /** Tells this master key from others, and nothing else of it. 32 bytes, for the database. */
  get checkValue(): Buffer {
    return Buffer.from(this.#check);
  }

  hasCheckValue(value: Uint8Array): boolean {
    return value.length === this.#check.length && timingSafeEqual(value, this.#check);
  }

  /** AES-256-GCM: a fresh nonce of 96 bits, the ciphertext, and the tag. */
  seal(text: string, context: SealContext): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#sealing, nonce);
    cipher.setAAD(encodeSealContext(context));
    const sealed = cipher.update(text, "utf8");
    return Buffer.concat([nonce, sealed, cipher.final(), cipher.getAuthTag()]);
  }

  /** Throws SealBrokenError. */
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
      // Not as its cause: nothing that the library says of it helps anybody.
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
