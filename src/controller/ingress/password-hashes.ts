import { createHash, createHmac } from "node:crypto";
import { encodeBase64, hash } from "bcryptjs";

/**
 * The cost factor of bcrypt: 2^10 rounds, which take about 60 ms. Caddy's own `hash-password` used this cost for
 * years. Caddy caches the results of checks, so that the cost is not paid for each request.
 */
const COST = 10;

/**
 * Hashes passwords for basic authentication. The salt is derived from instance, App and user, so that a password has
 * the same hash at each start, and the configuration does not change. The salt does not depend on the password,
 * because that would make guessing cheaper.
 */
export class PasswordHashes {
  readonly #instance: string;
  /**
   * The computed hashes. The key of each hash is a digest of App, user and password, so that the map contains no
   * password.
   */
  #known = new Map<string, string>();

  constructor(instance: string) {
    this.#instance = instance;
  }

  async hash(app: string, user: string, password: string): Promise<string> {
    const key = createHash("sha256")
      .update(JSON.stringify([app, user, password]))
      .digest("hex");
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const salt = createHmac("sha256", this.#instance).update(`${app}\0${user}`).digest();
    const made = await hash(password, `$2a$${COST}$${encodeBase64([...salt.subarray(0, 16)], 16)}`);
    if (this.#known.size >= KNOWN_MAX) this.#known = new Map();
    this.#known.set(key, made);
    return made;
  }
}

const KNOWN_MAX = 10_000;
