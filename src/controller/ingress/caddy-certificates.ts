import { X509Certificate } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { IssuerErrors } from "./issuer-errors.ts";

/** Returns the folder of Caddy's certificates. */
export function getStorageFolder(folder: string): string {
  return join(folder, "storage");
}

/**
 * Returns the glob of a name's certificate below the storage folder, in certmagic's layout: one folder for each
 * authority.
 */
export function getCertificatePattern(name: string): string {
  return `/certificates/*/${name}/${name}.crt`;
}

export function getLogFile(folder: string): string {
  return join(folder, "caddy.log");
}

/** Reads which names have a certificate in Caddy's storage, and why others have none. */
export class CaddyCertificates {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #errors: IssuerErrors;

  /** `folder` is the folder of the ingress, which contains Caddy's certificate storage and its log. */
  constructor(folder: string, clock: Clock) {
    this.#folder = join(getStorageFolder(folder), "certificates");
    this.#clock = clock;
    this.#errors = new IssuerErrors(getLogFile(folder));
  }

  /**
   * Returns the answer of a certificate authority that refused the last request for this name; undefined if none has
   * refused it.
   */
  findError(name: string): Promise<string | undefined> {
    return this.#errors.find(name);
  }

  /**
   * Returns true if this name has a certificate that has not expired. (Caddy renews certificates long before they
   * expire, but a renewal may fail.) Returns false if the storage cannot be read.
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
