import { randomBytes } from "node:crypto";

/** The number of random bytes that one system call requests. */
const POOL_BYTES = 2_048;

/**
 * Makes random bytes for keys, salts and nonces. A system call for each of them would take a third of the time of
 * encrypting a short text.
 */
export class RandomBytes {
  #pool: Buffer = Buffer.alloc(0);

  /** Returns random bytes. No byte of the pool is returned twice. */
  take(bytes: number): Buffer {
    if (bytes > POOL_BYTES) return randomBytes(bytes);
    if (this.#pool.length < bytes) this.#pool = randomBytes(POOL_BYTES);
    const taken = this.#pool.subarray(0, bytes);
    this.#pool = this.#pool.subarray(bytes);
    return taken;
  }
}
