import type { Clock } from "../../base/clock.ts";
import type { CredentialState, Provider, ProviderStatus } from "./port.ts";
import type { RemoteStore } from "./store/remote-store.ts";

/** The built-in and the added providers, with the last known status of each. */
export class Providers {
  readonly #store: RemoteStore;
  readonly #describe: (id: string) => CredentialState;
  readonly #clock: Clock;
  /** All providers by id, built-in ones first. Kept in memory, because every request reads it. */
  readonly #known: Map<string, Provider>;
  readonly #status = new Map<string, ProviderStatus>();

  constructor(options: {
    readonly builtIn: readonly Provider[];
    readonly store: RemoteStore;
    readonly describe: (id: string) => CredentialState;
    readonly clock: Clock;
  }) {
    this.#store = options.store;
    this.#describe = options.describe;
    this.#clock = options.clock;
    // An added provider takes precedence over a built-in one of the same id, which a later version of Berth may bring.
    const all = [...options.builtIn, ...options.store.providers()];
    this.#known = new Map(all.map((provider) => [provider.id, provider]));
  }

  all(): readonly Provider[] {
    return [...this.#known.values()];
  }

  find(id: string): Provider | undefined {
    return this.#known.get(id);
  }

  /** A provider in a private network may work without a key, one on the web does not. */
  usable(): readonly Provider[] {
    return this.all().filter(
      ({ id, addressClass }) => addressClass !== "public" || this.#describe(id).present,
    );
  }

  add(provider: Provider): void {
    this.#store.addProvider(provider);
    this.#known.set(provider.id, provider);
  }

  remove(id: string): void {
    this.#store.removeProvider(id);
    this.#known.delete(id);
    this.#status.delete(id);
  }

  getStatus(id: string): ProviderStatus {
    return this.#status.get(id) ?? "unknown";
  }

  noteStatus(id: string, status: ProviderStatus): void {
    // The last answers of a provider may arrive after it was removed.
    if (!this.#known.has(id)) return;
    this.#status.set(id, status);
    this.#store.noteUsed(id, this.#clock.now());
  }

  /** Resets the status, which a changed credential makes obsolete. */
  forgetStatus(id: string): void {
    this.#status.delete(id);
  }

  lastUsedMs(id: string): number | undefined {
    return this.#store.lastUsedMs(id);
  }
}
