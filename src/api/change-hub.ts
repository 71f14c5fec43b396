import type { Kind } from "../resources/kinds.ts";
import type { Change, Store } from "../store/store.ts";

export type ChangeListener = (change: Change) => void;

/**
 * One watch of the store, shared by every stream and every waiting request. Listeners of one
 * resource are found by key, so that a thousand waits cost a change nothing.
 */
export class ChangeHub implements Disposable {
  readonly #everything = new Set<ChangeListener>();
  readonly #byKey = new Map<string, Set<ChangeListener>>();
  readonly #stop: () => void;

  constructor(store: Pick<Store, "watch">) {
    this.#stop = store.watch((change) => {
      for (const listener of this.#everything) listener(change);
      if (change.kind === null) return;
      const listeners = this.#byKey.get(keyOf(change.kind, change.name));
      if (listeners) for (const listener of listeners) listener(change);
    });
  }

  /** Returns the way to stop. */
  onChange(listener: ChangeListener): () => void {
    this.#everything.add(listener);
    return () => this.#everything.delete(listener);
  }

  onChangeOf(kind: Kind, name: string, listener: ChangeListener): () => void {
    const key = keyOf(kind, name);
    const listeners = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byKey.get(key) === listeners) this.#byKey.delete(key);
    };
  }

  [Symbol.dispose](): void {
    this.#stop();
    this.#everything.clear();
    this.#byKey.clear();
  }
}

function keyOf(kind: Kind, name: string): string {
  return `${kind}/${name}`;
}
