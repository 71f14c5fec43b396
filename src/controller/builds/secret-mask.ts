import type { AppSpec } from "../../resources/app-spec.ts";
import type { Store } from "../../store/store.ts";
import { createValueMask, type SecretMask } from "../secrets/app-secret-mask.ts";
import { listReferencedSecrets } from "../secrets/secret-names.ts";

/** Keys of credentials that are no secret, and that people want to read in a log. */
const OPEN_KEYS: ReadonlySet<string> = new Set(["username", "server", "knownHosts", "known_hosts"]);

/**
 * Hides what a build could know in what it says: the values of the source's credential, of the
 * Secrets that the App refers to, and of all registries, whose passwords the engine is given.
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
      // What people paste ends with a newline, and is used without.
      .map(([, value]) => value.trim()),
  );
  return createValueMask(values);
}
