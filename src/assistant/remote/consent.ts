import type { DataClass } from "../data-class.ts";
import type { ConsentRules } from "./egress/port.ts";

/** The data classes that the user currently allows to leave the machine. Initially, none are allowed. */
export class Consent implements ConsentRules {
  readonly #allowed: Set<DataClass>;
  readonly #watchers = new Set<{
    readonly classes: readonly DataClass[];
    readonly callback: () => void;
  }>();

  constructor(allowed: Iterable<DataClass>) {
    this.#allowed = new Set(allowed);
  }

  isAllowed(scope: DataClass): boolean {
    return this.#allowed.has(scope);
  }

  missing(classes: readonly DataClass[]): readonly DataClass[] {
    return classes.filter((scope) => !this.#allowed.has(scope));
  }

  onRevoked(classes: readonly DataClass[], callback: () => void): () => void {
    const watcher = { classes, callback };
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  set(scope: DataClass, isAllowed: boolean): void {
    if (isAllowed) {
      this.#allowed.add(scope);
      return;
    }
    this.#allowed.delete(scope);
    for (const watcher of this.#watchers) {
      if (!watcher.classes.includes(scope)) continue;
      this.#watchers.delete(watcher);
      watcher.callback();
    }
  }
}
