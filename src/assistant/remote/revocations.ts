import { AssistantError } from "../assistant-error.ts";

/** What a request ends with whose provider, or the credential that it went by, was taken back. */
export class Revoked extends AssistantError {
  constructor(code: "unauthorized" | "model_not_found", why: string, id: string) {
    super(code, `${why}, so the request to ${id} was ended`);
  }
}

/** Requests under way at each provider, told when the person takes back what they go by. */
export class Revocations {
  readonly #watchers = new Map<string, Set<(error: Revoked) => void>>();

  /** Calls back at once, with what the request ends with. The function that it returns ends that. */
  onRevoked(id: string, callback: (error: Revoked) => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set();
    // One of its own for each: a callback may be given twice.
    const watcher = (error: Revoked) => callback(error);
    this.#watchers.set(id, watchers.add(watcher));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id);
    };
  }

  /** Ends what is under way at a provider. */
  end(id: string, error: Revoked): void {
    const watchers = this.#watchers.get(id) ?? [];
    this.#watchers.delete(id);
    for (const watcher of watchers) watcher(error);
  }
}
