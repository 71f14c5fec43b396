import type { AssistantError } from "../errors.ts";

/** Requests under way at each provider, told when the person takes back what they go by. */
export class Withdrawals {
  readonly #watchers = new Map<string, Set<(error: AssistantError) => void>>();

  /** Calls back at once, with what the request ends with. The function that it returns ends that. */
  on(id: string, callback: (error: AssistantError) => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set();
    // One of its own for each: a callback may be given twice.
    const watcher = (error: AssistantError) => callback(error);
    this.#watchers.set(id, watchers.add(watcher));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id);
    };
  }

  /** Ends what is under way at a provider. */
  end(id: string, error: AssistantError): void {
    const watchers = this.#watchers.get(id) ?? [];
    this.#watchers.delete(id);
    for (const watcher of watchers) watcher(error);
  }
}
