import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Environment } from "../../base/process-environment.ts";
import { SECRET_BYTES } from "../../base/sealing-key.ts";
import type { SessionBus } from "../../dbus/port.ts";
import { KeyFile } from "../key-sources/key-file.ts";
import type { KeySource } from "../key-sources/port.ts";
import { SecretService } from "../key-sources/secret-service/secret-service.ts";
import { SystemdCredential } from "../key-sources/systemd-credential.ts";

/** The file in the assistant's data directory with the master key, if no better source is available. */
export const TEXT_KEY_FILE = "ledger-text-key";
const LABEL = "Berth: key of the ledger's texts";

export interface TextKeySourceOptions {
  /** The assistant's data directory. */
  readonly dir: string;
  readonly environment: Environment;
  /** The session bus, which may offer a keyring. */
  readonly sessionBus?: SessionBus | undefined;
}

/**
 * Returns the places that can store the master key of a ledger's texts: the same places as for the credentials of
 * providers, in the same order. The ledger has its own item in the keyring, and its own file.
 */
export function listTextKeySources(
  { dir, environment, sessionBus }: TextKeySourceOptions,
  ledgerId: string,
): readonly KeySource[] {
  return [
    new SystemdCredential(environment),
    ...(sessionBus ? [new SecretService(sessionBus, ledgerId, { label: LABEL })] : []),
    new KeyFile(join(dir, TEXT_KEY_FILE)),
  ];
}

/** The state `empty` means that the source can store a key and has none. */
export type FoundMasterKey =
  | { readonly state: "key"; readonly source: KeySource; readonly key: Buffer }
  | { readonly state: "empty"; readonly source: KeySource }
  | { readonly state: "unavailable"; readonly why: string };

/**
 * Reads the master key from the recorded source or, if none is recorded, from the first source that this machine has.
 */
export async function findMasterKey(
  sources: readonly KeySource[],
  recorded: string | undefined,
  signal: AbortSignal,
): Promise<FoundMasterKey> {
  const candidates =
    recorded === undefined ? sources : sources.filter(({ name }) => name === recorded);
  for (const source of candidates) {
    const found = await source.probe(signal);
    if (found.state === "key") return { state: "key", source, key: found.key };
    if (found.state === "empty") return { state: "empty", source };
    if (found.state === "locked") return { state: "unavailable", why: found.why };
  }
  return {
    state: "unavailable",
    why: recorded === undefined ? "no source can store a key" : unavailableMessage(recorded),
  };
}

/** Creates a master key and reads it back, because a key that cannot be read must not encrypt anything. */
export async function createMasterKey(source: KeySource, signal: AbortSignal): Promise<Buffer> {
  await source.store?.(randomBytes(SECRET_BYTES), signal);
  const found = await source.probe(signal);
  if (found.state === "key") return found.key;
  throw new Error(found.state === "locked" ? found.why : "the key was not stored");
}

function unavailableMessage(source: string): string {
  switch (source) {
    case "systemd-credential":
      return "the key of the texts is the systemd credential berth.vault-key, which only the assistant's service has";
    case "secret-service":
      return "the key of the texts is in the keyring of the desktop, which is not available here";
    default:
      return `the key of the texts is in ${source}, which is not available here`;
  }
}
