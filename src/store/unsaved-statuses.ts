import type { Kind } from "../resources/kinds.ts";
import type { Resource, StatusOf } from "../resources/resource.ts";

/** A status that could not be written, because the disk was full. */
interface UnsavedStatus {
  readonly uid: string;
  readonly save: () => void;
  readonly status: unknown;
}

/** Keeps the newest statuses of resources in memory while the disk has no space for them. */
export class UnsavedStatuses {
  readonly #statuses = new Map<string, UnsavedStatus>();

  get size(): number {
    return this.#statuses.size;
  }

  /** Keeps a status in memory. `save` writes the status, and throws while the disk has no space for it. */
  set<K extends Kind>(
    kind: K,
    name: string,
    uid: string,
    status: StatusOf[K],
    save: () => void,
  ): void {
    this.#statuses.set(`${kind}/${name}`, { uid, status, save });
  }

  delete(kind: Kind, name: string): void {
    this.#statuses.delete(`${kind}/${name}`);
  }

  /** Returns the resource with its unsaved status; the unchanged resource if it has none. */
  apply<K extends Kind>(resource: Resource<K>): Resource<K> {
    if (this.#statuses.size === 0) return resource;
    const unsaved = this.#statuses.get(`${resource.kind}/${resource.metadata.name}`);
    if (unsaved?.uid !== resource.metadata.uid) return resource;
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `set` has stored the status of this kind
    return { ...resource, status: unsaved.status as StatusOf[K] };
  }

  /** Writes all statuses. Throws at the first one that cannot be written. */
  save(): void {
    for (const [key, { save }] of this.#statuses) {
      save();
      this.#statuses.delete(key);
    }
  }
}
