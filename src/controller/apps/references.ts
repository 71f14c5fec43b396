import type { Resource } from "../../resources/resource.ts";
import { secretsOf } from "../secrets/secret-names.ts";

/**
 * Which Apps look at which other resources, so that a change of one wakes the others. Follows the
 * store's changes; an App's own entry is replaced whenever it changes.
 */
export class References {
  readonly #dependencies = new Map<string, readonly string[]>();
  readonly #secrets = new Map<string, readonly string[]>();
  readonly #models = new Map<string, readonly string[]>();

  update(app: Resource<"App">): void {
    this.#dependencies.set(app.metadata.name, app.spec.dependsOn ?? []);
    this.#secrets.set(app.metadata.name, secretsOf(app.spec));
    this.#models.set(app.metadata.name, app.spec.models ?? []);
  }

  remove(app: string): void {
    this.#dependencies.delete(app);
    this.#secrets.delete(app);
    this.#models.delete(app);
  }

  dependentsOf(app: string): readonly string[] {
    return namesWith(this.#dependencies, app);
  }

  usersOf(secret: string): readonly string[] {
    return namesWith(this.#secrets, secret);
  }

  usersOfModel(model: string): readonly string[] {
    return namesWith(this.#models, model);
  }
}

function namesWith(map: ReadonlyMap<string, readonly string[]>, wanted: string): readonly string[] {
  return [...map].filter(([, names]) => names.includes(wanted)).map(([name]) => name);
}
