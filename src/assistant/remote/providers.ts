import type { Clock } from "../../base/clock.ts";
import type { CredentialState, Provider, ProviderStatus } from "./port.ts";
import type { RemoteStore } from "./store/remote-store.ts";

interface ProvidersOptions {
  readonly builtIn: readonly Provider[];
  readonly store: RemoteStore;
  readonly describe: (id: string) => CredentialState;
  readonly clock: Clock;
}

/** The built-in providers and those that the user added, with the last known status of each. */
export class Providers {
  readonly #options: ProvidersOptions;
  /** All providers by id, built-in ones first. They are kept in memory, because every request reads them. */
  readonly #known: Map<string, Provider>;
  readonly #status = new Map<string, ProviderStatus>();

  constructor(options: ProvidersOptions) {
    this.#options = options;
    // An added provider replaces a built-in provider of the same id. This can happen when a later version of Berth adds
    // that built-in provider.
    const all = [...options.builtIn, ...options.store.providers()];
    this.#known = new Map(all.map((provider) => [provider.id, provider]));
  }

  all(): readonly Provider[] {
    return [...this.#known.values()];
  }

  find(id: string): Provider | undefined {
    return this.#known.get(id);
  }

  /**
   * Returns the providers that can be used. A provider in a private network may work without a key, but a provider on
   * the web does not.
   */
  usable(): readonly Provider[] {
    return this.all().filter(
      ({ id, addressClass }) => addressClass !== "public" || this.#options.describe(id).present,
    );
  }

  add(provider: Provider): void {
    this.#options.store.addProvider(provider);
    this.#known.set(provider.id, provider);
  }

  remove(id: string): void {
    this.#options.store.removeProvider(id);
    this.#known.delete(id);
    this.#status.delete(id);
  }

  getStatus(id: string): ProviderStatus {
    return this.#status.get(id) ?? "unknown";
  }

  noteStatus(id: string, status: ProviderStatus): void {
    // Answers may still arrive after their provider was removed. They must not create a status for it.
    if (!this.#known.has(id)) return;
    this.#status.set(id, status);
    this.#options.store.noteUsed(id, this.#options.clock.now());
  }

  /** Resets the provider's status to `unknown`, because its credential has changed. */
  forgetStatus(id: string): void {
    this.#status.delete(id);
  }

  lastUsedMs(id: string): number | undefined {
    return this.#options.store.lastUsedMs(id);
  }
}
