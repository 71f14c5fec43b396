import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { getErrorCode } from "../../base/errors.ts";
import type { Environment } from "../../base/process-environment.ts";
import { SECRET_BYTES } from "../../base/sealing-key.ts";
import type { FoundKey, KeySource } from "./port.ts";

const CREDENTIAL = "berth.vault-key";

/**
 * A key of 32 bytes that systemd decrypts and passes to the service in a directory that exists only in memory. For a
 * user's unit (systemd 256 or newer):
 *
 *     head -c 32 /dev/urandom | systemd-creds encrypt --user --name=berth.vault-key - ~/.config/berth.vault-key.cred
 *     # in the unit: LoadCredentialEncrypted=berth.vault-key:%h/.config/berth.vault-key.cred
 */
export class SystemdCredential implements KeySource {
  readonly name = "systemd-credential";
  readonly #folder: string | undefined;

  constructor(environment: Environment) {
    const folder = environment["CREDENTIALS_DIRECTORY"];
    this.#folder = folder !== undefined && isAbsolute(folder) ? folder : undefined;
  }

  async probe(): Promise<FoundKey> {
    if (this.#folder === undefined) return { state: "absent" };
    try {
      const key = await readFile(join(this.#folder, CREDENTIAL));
      if (key.length === SECRET_BYTES) return { state: "key", key };
      return {
        state: "locked",
        why: `the systemd credential ${CREDENTIAL} has ${key.length} bytes in place of ${SECRET_BYTES}; create it again with: head -c 32 /dev/urandom | systemd-creds encrypt`,
      };
    } catch (error) {
      const code = getErrorCode(error) ?? "no code";
      if (code === "ENOENT" || code === "ENOTDIR") return { state: "absent" };
      return {
        state: "locked",
        why: `the systemd credential ${CREDENTIAL} cannot be read (${code}); check the unit's LoadCredential settings`,
      };
    }
  }
}
