import { ConflictError } from "../base/errors.ts";
import { listAllReferencedSecrets } from "../resources/secret-names.ts";
import type { Store } from "../store/store.ts";

const NAMED_MAX = 5;

/**
 * Refuses the deletion of a Secret that Apps or Models refer to, because each of them would fail at its next start.
 * Throws ConflictError `conflict` with the names of these Apps and Models. Apps for which `counts` returns false are
 * left out.
 */
export function assertSecretUnused(
  store: Store,
  secret: string,
  counts: (app: string) => boolean = () => true,
): void {
  const apps = store
    .list("App")
    .filter(({ metadata }) => counts(metadata.name))
    .filter(({ spec }) => listAllReferencedSecrets(spec).includes(secret))
    .map(({ metadata }) => `app "${metadata.name}"`);
  const models = store
    .list("Model")
    .filter(({ spec }) => spec.credential === secret)
    .map(({ metadata }) => `model "${metadata.name}"`);
  const users = [...apps, ...models];
  if (users.length === 0) return;
  const named = users.slice(0, NAMED_MAX).join(", ");
  const more = users.length > NAMED_MAX ? ` and ${users.length - NAMED_MAX} more` : "";
  throw new ConflictError("conflict", `secret "${secret}" is used by ${named}${more}`, {
    hint: "first change or delete the apps and models that use the secret, or delete it anyway with force",
  });
}
