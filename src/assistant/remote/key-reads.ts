import { AssistantError } from "../assistant-error.ts";
import type { Provider } from "./port.ts";

/** A key that is being read from a descriptor, for the provider as it was when the read began. */
export interface KeyRead extends Disposable {
  readonly provider: Provider;
  /** Aborts with `cancelled` when a later change of the provider or of its key makes the read pointless. */
  readonly signal: AbortSignal;
}

/**
 * The keys that are being read. A read takes up to 10 seconds, during which other changes continue. The change that was
 * requested last wins: a provider that was added again under the same id never gets a key that was meant for the first
 * one, and a key that was cleared does not come back.
 */
export class KeyReads {
  /** For each provider id, the reads in the order in which they began. */
  readonly #reads = new Map<string, Map<KeyRead, AbortController>>();

  begin(provider: Provider): KeyRead {
    const { id } = provider;
    const controller = new AbortController();
    const reads = this.#reads.get(id) ?? new Map<KeyRead, AbortController>();
    this.#reads.set(id, reads);
    const read: KeyRead = {
      provider,
      signal: controller.signal,
      [Symbol.dispose]: () => {
        reads.delete(read);
        if (reads.size === 0) this.#reads.delete(id);
      },
    };
    reads.set(read, controller);
    return read;
  }

  /** Cancels the reads of the provider that began before `until`, or all of them. */
  cancel(id: string, why: string, until?: KeyRead): void {
    for (const [read, controller] of this.#reads.get(id) ?? []) {
      if (read === until) return;
      controller.abort(
        new AssistantError(
          "cancelled",
          `the key for ${id} was not stored, because ${why} while it was read`,
        ),
      );
    }
  }

  cancelAll(error: AssistantError): void {
    for (const reads of this.#reads.values())
      for (const controller of reads.values()) controller.abort(error);
  }
}
