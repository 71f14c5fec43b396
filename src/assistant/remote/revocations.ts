import { AssistantError } from "../assistant-error.ts";

/** The error of a request whose provider or credential was removed while the request was in progress. */
export class Revoked extends AssistantError {
  constructor(code: "unauthorized" | "model_not_found", why: string, id: string) {
    super(code, `${why}, so the request to ${id} was ended`);
  }
}

/** Callbacks of requests in progress, by provider. They are called when the provider or its credential is revoked. */
export class Revocations {
  readonly #watchers = new Map<string, Set<(error: Revoked) => void>>();

  /**
   * Registers a callback for the revocation of the provider `id` or of its credential; the callback receives the error
   * with which the request must end. Returns a function that unsubscribes.
   */
  onRevoked(id: string, callback: (error: Revoked) => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set();
    // Each subscription needs a new object, because the same callback may subscribe twice.
    const watcher = (error: Revoked) => callback(error);
    this.#watchers.set(id, watchers.add(watcher));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id);
    };
  }

  /** Ends all requests to a provider with the given error. */
  end(id: string, error: Revoked): void {
    const watchers = this.#watchers.get(id) ?? [];
    this.#watchers.delete(id);
    for (const watcher of watchers) watcher(error);
  }
}
