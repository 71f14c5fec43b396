import type { Logger } from "../../base/logger.ts";
import type { OverlayListener } from "./port.ts";

/**
 * Forwards each event to every subscribed listener. A listener that throws is logged and does not affect the
 * others.
 */
export class OverlayListeners {
  readonly #logger: Logger;
  readonly #listeners = new Set<{ readonly listener: OverlayListener }>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(listener: OverlayListener): () => void {
    // A new object for each subscription, so that the same listener can subscribe twice and unsubscribe once.
    const own = { listener };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  notify(deliver: (listener: OverlayListener) => void): void {
    for (const { listener } of this.#listeners) {
      try {
        deliver(listener);
      } catch (err) {
        this.#logger.error({ err }, "an overlay listener threw");
      }
    }
  }
}
