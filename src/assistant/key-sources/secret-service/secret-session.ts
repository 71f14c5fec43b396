import {
  createCipheriv,
  createDecipheriv,
  getDiffieHellman,
  hkdfSync,
  randomBytes,
} from "node:crypto";
import { isList, isVariant, toText } from "../../../dbus/bus-values.ts";
import type { BusValue } from "../../../dbus/port.ts";
import type { SecretsCall } from "./secrets-call.ts";

const ALGORITHM = "dh-ietf1024-sha256-aes128-cbc-pkcs7";
const SERVICE = "/org/freedesktop/secrets";
const IV_BYTES = 16;

/** Thrown if an answer of the Secret Service violates the specification of the Secret Service API. */
export class SecretProtocolError extends Error {}

/**
 * A session of the Secret Service API, in which secrets are sent encrypted. Both sides agree on a key with
 * Diffie-Hellman in the second Oakley group, so that a program which only monitors the bus learns nothing.
 */
export class SecretSession {
  readonly path: string;
  readonly #key: Buffer;

  /**
   * Opens a session with the Secret Service. Rejects like SessionBus.call, with SecretProtocolError if the service
   * sends no public key, and with Node's error if the key is invalid.
   */
  static async open(call: SecretsCall): Promise<SecretSession> {
    const ours = getDiffieHellman("modp2");
    ours.generateKeys();
    const [output, path] = await call(
      SERVICE,
      "org.freedesktop.Secret.Service.OpenSession",
      "sv",
      ALGORITHM,
      { signature: "ay", value: [...ours.getPublicKey()] },
    );
    if (output === undefined || !isVariant(output) || output.signature !== "ay")
      throw new SecretProtocolError("the Secret Service sent no public key");
    // The shared secret is padded to the length of the prime, as in other implementations. The key derivation uses no
    // salt and no info.
    const shared = ours.computeSecret(toBytes(output.value));
    const key = Buffer.from(hkdfSync("sha256", shared, "", "", 16));
    shared.fill(0);
    return new SecretSession(toText(path), key);
  }

  private constructor(path: string, key: Buffer) {
    this.path = path;
    this.#key = key;
  }

  /** Encrypts a secret. Returns the struct `(oayays)` of the Secret Service API. */
  encrypt(text: string): BusValue {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv("aes-128-cbc", this.#key, iv);
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return [this.path, [...iv], [...sealed], "text/plain"];
  }

  /** Decrypts the secret in a struct `(oayays)` of the Secret Service API. Throws SecretProtocolError. */
  decrypt(secret: BusValue | undefined): string {
    if (secret === undefined || !isList(secret))
      throw new SecretProtocolError("the Secret Service sent no secret");
    const [, iv, sealed] = secret;
    try {
      const decipher = createDecipheriv("aes-128-cbc", this.#key, toBytes(iv));
      return Buffer.concat([decipher.update(toBytes(sealed)), decipher.final()]).toString("utf8");
    } catch {
      throw new SecretProtocolError("the Secret Service sent a secret that cannot be decrypted");
    }
  }

  /** Closes the session. Errors are ignored, because the service ends the session anyway when the connection closes. */
  async close(call: SecretsCall): Promise<void> {
    this.#key.fill(0);
    await call(this.path, "org.freedesktop.Secret.Session.Close", "").catch(() => undefined);
  }
}

function toBytes(value: BusValue | undefined): Buffer {
  if (value === undefined || !isList(value)) throw new SecretProtocolError("no bytes");
  return Buffer.from(value.map(Number));
}
