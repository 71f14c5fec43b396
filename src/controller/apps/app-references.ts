import type { Resource } from "../../resources/resource.ts";
import { listReferencedSecrets } from "../../resources/secret-names.ts";

/**
 * An index from resources to the Apps that refer to them, so that a change of a resource queues those Apps. The entry
 * of an App is replaced whenever the App changes.
 */
export class AppReferences {
  readonly #dependencies = new Map<string, readonly string[]>();
  readonly #secrets = new Map<string, readonly string[]>();
  readonly #models = new Map<string, readonly string[]>();

  update(app: Resource<"App">): void {
    this.#dependencies.set(app.metadata.name, app.spec.dependsOn ?? []);
    this.#secrets.set(app.metadata.name, listReferencedSecrets(app.spec));
    this.#models.set(app.metadata.name, app.spec.models ?? []);
  }

  remove(app: string): void {
    this.#dependencies.delete(app);
    this.#secrets.delete(app);
    this.#models.delete(app);
  }

  dependentsOf(app: string): readonly string[] {
    return findReferrers(this.#dependencies, app);
  }

  usersOfSecret(secret: string): readonly string[] {
    return findReferrers(this.#secrets, secret);
  }

  usersOfModel(model: string): readonly string[] {
    return findReferrers(this.#models, model);
  }
}

function findReferrers(
  map: ReadonlyMap<string, readonly string[]>,
  wanted: string,
): readonly string[] {
  return [...map].filter(([, names]) => names.includes(wanted)).map(([name]) => name);
}
