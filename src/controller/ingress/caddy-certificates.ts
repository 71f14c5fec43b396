import { X509Certificate } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";

/** Returns the folder of Caddy's certificates. */
export function getStorageFolder(folder: string): string {
  return join(folder, "storage");
}

/** Returns the glob of a name's certificate below the storage folder, in certmagic's layout: one folder for each authority. */
export function getCertificatePattern(name: string): string {
  return `/certificates/*/${name}/${name}.crt`;
}

/** The certificates in Caddy's storage. */
export class CaddyCertificates {
  readonly #folder: string;
  readonly #clock: Clock;

  constructor(storageFolder: string, clock: Clock) {
    this.#folder = join(storageFolder, "certificates");
    this.#clock = clock;
  }

  /**
   * Returns true if there is a certificate of this name that has not expired: Caddy renews certificates long before, but
   * a renewal may fail. Returns false if the storage cannot be read.
   */
  async has(name: string): Promise<boolean> {
    const authorities = await readdir(this.#folder).catch(() => []);
    for (const authority of authorities) {
      const file = join(this.#folder, authority, name, `${name}.crt`);
      const text = await readFile(file).catch(() => undefined);
      if (text && this.#isValid(text)) return true;
    }
    return false;
  }

  #isValid(text: Buffer): boolean {
    try {
      return new X509Certificate(text).validToDate.getTime() > this.#clock.now();
    } catch {
      return false;
    }
  }
}
