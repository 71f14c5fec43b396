import type { Logger } from "../../../base/logger.ts";
import type { AgentListener, CallStatus, ConfirmationSpec } from "../port.ts";

/**
 * Forwards each event to every subscribed listener. A listener that throws is logged and does not affect the
 * others.
 */
export class AgentListeners implements AgentListener {
  readonly #logger: Logger;
  readonly #listeners = new Set<AgentListener>();

  constructor(options: { readonly logger: Logger }) {
    this.#logger = options.logger;
  }

  add(listener: AgentListener): () => void {
    // A new object for each subscription, so that the same listener can subscribe twice and unsubscribe once.
    const own: AgentListener = {
      confirmationRequested: (callId, spec) => listener.confirmationRequested(callId, spec),
      callResolved: (callId, status) => listener.callResolved(callId, status),
    };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  confirmationRequested(callId: number, spec: ConfirmationSpec): void {
    this.#notifyAll((listener) => listener.confirmationRequested(callId, spec));
  }

  callResolved(callId: number, status: CallStatus): void {
    this.#notifyAll((listener) => listener.callResolved(callId, status));
  }

  #notifyAll(notify: (listener: AgentListener) => void): void {
    for (const listener of this.#listeners) {
      try {
        notify(listener);
      } catch (err) {
        this.#logger.error({ err }, "an agent listener threw");
      }
    }
  }
}
