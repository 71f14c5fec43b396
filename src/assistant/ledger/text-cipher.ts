import {
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import { deriveKey, SECRET_BYTES, SealingKey } from "../../base/sealing-key.ts";

/**
 * The keys of a ledger's texts, in three steps, so that writing needs no key that could be locked:
 *
 * - The master key is in a key source. It encrypts the private key of the key pair.
 * - The public key encrypts text keys (X25519 with a key pair that is used once, HKDF, AES-256-GCM).
 * - Each opening of the ledger creates a text key, which encrypts salts and texts with AES-256-GCM. In the database, it
 *   is stored only in encrypted form.
 */
export interface TextKeyPair {
  /** The name of the key source with the master key. */
  readonly source: string;
  /** DER, SubjectPublicKeyInfo. */
  readonly publicKey: Uint8Array;
  /** DER, PKCS #8, encrypted with the master key. */
  readonly privateKey: Uint8Array;
}

/** The length of an X25519 public key as DER. */
const PUBLIC_KEY_BYTES = 44;
const PRIVATE_KEY_CONTEXT = Buffer.from("berth ledger private text key 1");
const TEXT_KEY_CONTEXT = Buffer.from("berth ledger text key 1");

/** Creates a key pair. `ledgerId` is the name in the ledger's public key, so that ledgers never share a key. */
export function createTextKeyPair(
  source: string,
  master: Uint8Array,
  ledgerId: string,
): TextKeyPair {
  const { publicKey, privateKey } = generateKeyPairSync("x25519");
  const secret = privateKey.export({ type: "pkcs8", format: "der" });
  return {
    source,
    publicKey: publicKey.export({ type: "spki", format: "der" }),
    privateKey: deriveMasterKey(master, ledgerId).seal(secret, PRIVATE_KEY_CONTEXT),
  };
}

/** Opens the private key. Throws SealBrokenError if it was sealed with another master key, or was changed. */
export function openPrivateKey(
  { privateKey }: TextKeyPair,
  master: Uint8Array,
  ledgerId: string,
): KeyObject {
  const sealing = deriveMasterKey(master, ledgerId);
  const key = sealing.open(Buffer.from(privateKey), PRIVATE_KEY_CONTEXT);
  return createPrivateKey({ key, type: "pkcs8", format: "der" });
}

/** Returns true if the public key is the one of this private key. */
export function belongsTo({ publicKey }: TextKeyPair, privateKey: KeyObject): boolean {
  return exportPublicKey(createPublicKey(privateKey)).equals(publicKey);
}

/** Encrypts texts with a new text key. `wrapped` is the text key, encrypted for the holder of the private key. */
export class TextSealer {
  readonly wrapped: Buffer;
  readonly #key: SealingKey;

  constructor(publicKey: Uint8Array) {
    const key = randomBytes(SECRET_BYTES);
    const once = generateKeyPairSync("x25519");
    const recipient = createPublicKey({ key: Buffer.from(publicKey), type: "spki", format: "der" });
    const sender = exportPublicKey(once.publicKey);
    const shared = diffieHellman({ privateKey: once.privateKey, publicKey: recipient });
    const sealed = deriveWrappingKey(shared, sender, publicKey).seal(key, TEXT_KEY_CONTEXT);
    this.wrapped = Buffer.concat([sender, sealed]);
    this.#key = new SealingKey(key);
  }

  seal(seq: number, salt: Uint8Array, text: string): Buffer {
    return this.#key.seal(Buffer.concat([salt, Buffer.from(text)]), textContext(seq));
  }
}

/** Decrypts texts with the private key. `findKey` returns a wrapped text key by its id. */
export class TextOpener {
  readonly #privateKey: KeyObject;
  readonly #publicKey: Buffer;
  readonly #findKey: (id: number) => Buffer | undefined;
  readonly #keys = new Map<number, SealingKey | undefined>();

  constructor(privateKey: KeyObject, findKey: (id: number) => Buffer | undefined) {
    this.#privateKey = privateKey;
    this.#publicKey = exportPublicKey(createPublicKey(privateKey));
    this.#findKey = findKey;
  }

  /** Returns the salt followed by the text; undefined if the text or its key was changed, moved or removed. */
  open(seq: number, keyId: number, box: Buffer): Buffer | undefined {
    if (!this.#keys.has(keyId))
      this.#keys.set(
        keyId,
        attempt(() => this.#unwrap(keyId)),
      );
    return attempt(() => this.#keys.get(keyId)?.open(box, textContext(seq)));
  }

  #unwrap(id: number): SealingKey | undefined {
    const wrapped = this.#findKey(id);
    if (!wrapped) return undefined;
    const sender = wrapped.subarray(0, PUBLIC_KEY_BYTES);
    const publicKey = createPublicKey({ key: sender, type: "spki", format: "der" });
    const shared = diffieHellman({ privateKey: this.#privateKey, publicKey });
    const wrapping = deriveWrappingKey(shared, sender, this.#publicKey);
    return new SealingKey(wrapping.open(wrapped.subarray(PUBLIC_KEY_BYTES), TEXT_KEY_CONTEXT));
  }
}

/** Runs a step of a decryption. Returns undefined if it fails, which means that the stored bytes were changed. */
function attempt<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch {
    return undefined;
  }
}

function textContext(seq: number): Buffer {
  return Buffer.from(`berth ledger text 1 ${seq}`);
}

function deriveMasterKey(master: Uint8Array, ledgerId: string): SealingKey {
  return new SealingKey(deriveKey(master, ledgerId, "berth ledger texts"));
}

function deriveWrappingKey(shared: Buffer, sender: Uint8Array, recipient: Uint8Array): SealingKey {
  const salt = Buffer.concat([sender, recipient]).toString("base64");
  return new SealingKey(deriveKey(shared, salt, "berth ledger text key"));
}

function exportPublicKey(key: KeyObject): Buffer {
  return key.export({ type: "spki", format: "der" });
}
