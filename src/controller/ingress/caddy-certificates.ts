import { access, readdir } from "node:fs/promises";
import { join } from "node:path";

/**
 * The certificates that Caddy has stored: `<folder>/certificates/<authority>/<name>/<name>.crt`, as
 * certmagic lays them out. Only whether one is there is looked at; one that has run out is renewed by Caddy.
 */
export class CaddyCertificates {
  readonly #folder: string;

  constructor(storageFolder: string) {
    this.#folder = join(storageFolder, "certificates");
  }

  /** False where that cannot be seen. */
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
