import { access, readdir } from "node:fs/promises";
import { join } from "node:path";

/**
 * The certificates in Caddy's storage, `<folder>/certificates/<authority>/<name>/<name>.crt` in certmagic's layout.
 * Expiry is not checked, because Caddy renews certificates itself.
 */
export class CaddyCertificates {
  readonly #folder: string;

  constructor(storageFolder: string) {
    this.#folder = join(storageFolder, "certificates");
  }

  /** Returns false if the storage cannot be read. */
  async has(name: string): Promise<boolean> {
    const authorities = await readdir(this.#folder).catch(() => []);
    for (const authority of authorities) {
      const file = join(this.#folder, authority, name, `${name}.crt`);
      if (await isPresent(file)) return true;
    }
    return false;
  }
}

function isPresent(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
