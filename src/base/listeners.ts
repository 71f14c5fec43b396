import type { Logger } from "./logger.ts";

/**
 * Forwards each event to every subscribed listener. A listener that throws is logged and does not affect the others.
 */
export class Listeners<Listener> {
  readonly #logger: Logger;
  readonly #listeners = new Set<{ readonly listener: Listener }>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(listener: Listener): () => void {
    // Each subscription is a new object, so that the same listener can subscribe twice and unsubscribe once.
    const own = { listener };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  notify(deliver: (listener: Listener) => void): void {
    for (const { listener } of this.#listeners) {
      try {
        deliver(listener);
      } catch (err) {
        this.#logger.error({ err }, "a listener threw");
      }
    }
  }
}
