import type { Logger } from "../../base/logger.ts";
import type { OverlayListener } from "./port.ts";

/** Everybody who wants to hear of queries. One that throws costs nobody else anything. */
export class OverlayListeners {
  readonly #logger: Logger;
  readonly #listeners = new Set<{ readonly listener: OverlayListener }>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(listener: OverlayListener): () => void {
    // An object of its own, so that the same listener may subscribe twice and leave once.
    const own = { listener };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  notify(deliver: (listener: OverlayListener) => void): void {
    for (const { listener } of this.#listeners) {
      try {
        deliver(listener);
      } catch (err) {
        this.#logger.error({ err }, "a listener of queries failed");
      }
    }
  }
}
