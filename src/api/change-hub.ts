import type { Kind } from "../resources/kinds.ts";
import type { Store, StoreChange } from "../store/store.ts";

export type ChangeListener = (change: StoreChange) => void;

/**
 * Shares one watch of the store among all streams and waiting requests. Listeners are indexed by resource, so that a
 * thousand waits do not slow down a change.
 */
export class ChangeHub implements Disposable {
  readonly #listeners = new Set<ChangeListener>();
  readonly #listenersByResource = new Map<string, Set<ChangeListener>>();
  readonly #stop: () => void;

  constructor(store: Pick<Store, "watch">) {
    this.#stop = store.watch((change) => {
      for (const listener of this.#listeners) listener(change);
      if (change.kind === null) return;
      const listeners = this.#listenersByResource.get(getResourceKey(change.kind, change.name));
      if (listeners) for (const listener of listeners) listener(change);
    });
  }

  /** Calls the listener at each change in the store. Returns a function that removes the listener. */
  onChange(listener: ChangeListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onResourceChange(kind: Kind, name: string, listener: ChangeListener): () => void {
    const key = getResourceKey(kind, name);
    const listeners = this.#listenersByResource.get(key) ?? new Set();
    this.#listenersByResource.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listenersByResource.get(key) === listeners)
        this.#listenersByResource.delete(key);
    };
  }

  [Symbol.dispose](): void {
    this.#stop();
    this.#listeners.clear();
    this.#listenersByResource.clear();
  }
}

function getResourceKey(kind: Kind, name: string): string {
  return `${kind}/${name}`;
}
