import type { AppSpec } from "../../resources/app-spec.ts";
import { listReferencedSecrets } from "../../resources/secret-names.ts";
import type { Store } from "../../store/store.ts";
import { createValueMask, type SecretMask } from "../secrets/app-secret-mask.ts";

/**
 * Keys of a credential's Secret whose values are not masked: the values are not secret, and help users to read a log.
 */
const OPEN_KEYS: ReadonlySet<string> = new Set(["username", "server", "knownHosts", "known_hosts"]);

/**
 * Returns a mask for all secrets that a build could output: the values of the source's credential and of the Secrets
 * that the App refers to, and the passwords of all registries, because the engine gets these too.
 */
export function secretMask(store: Store, spec: AppSpec): SecretMask {
  const credential = spec.source && "git" in spec.source ? spec.source.git.credential : undefined;
  const registries = store
    .list("Secret")
    .filter((secret) => secret.spec.type === "registry")
    .map((secret) => secret.metadata.name);
  const credentials = new Set([...registries, ...(credential === undefined ? [] : [credential])]);
  const values = [...new Set([...listReferencedSecrets(spec), ...credentials])].flatMap((name) =>
    Object.entries(store.secrets.reveal(name) ?? {})
      .filter(([key]) => !(credentials.has(name) && OPEN_KEYS.has(key)))
      // Pasted secrets often end with a newline, but programs use and print them without that newline.
      .map(([, value]) => value.trim()),
  );
  return createValueMask(values);
}
