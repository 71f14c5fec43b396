import { timingSafeEqual } from "node:crypto";
import { deriveKey, SealingKey } from "../../../base/sealing-key.ts";
import type { Credential } from "./port.ts";

/**
 * The version of the encryption format and of its associated data. A text can be decrypted only with the version that
 * encrypted it.
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

/**
 * The keys of one vault, derived from the master key and the vault's id, so that vaults with the same master key have
 * different keys.
 */
export class VaultKey {
  readonly #sealing: SealingKey;
  readonly #check: Buffer;

  constructor(master: Uint8Array, vaultId: string) {
    this.#sealing = new SealingKey(deriveKey(master, vaultId, "berth vault credentials"));
    this.#check = deriveKey(master, vaultId, "berth vault check");
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

  seal(text: string, context: SealContext): Buffer {
    return this.#sealing.seal(text, encodeSealContext(context));
  }

  /**
   * Opens a text that `seal` returned. Throws SealBrokenError if the text was changed, or was sealed with another key
   * or context.
   */
  open(sealed: Buffer, context: SealContext): string {
    return this.#sealing.open(sealed, encodeSealContext(context)).toString("utf8");
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
