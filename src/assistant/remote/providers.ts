import type { Clock } from "../../base/clock.ts";
import type { CredentialState, Provider, ProviderStatus } from "./port.ts";
import type { RemoteStore } from "./store/remote-store.ts";

/** The providers that there are: those that Berth brings, and those that were added, with what is known of each. */
export class Providers {
  readonly #store: RemoteStore;
  readonly #describe: (id: string) => CredentialState;
  readonly #clock: Clock;
  /** As in the store; each request looks here. Those that Berth brings come first. */
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
    // A later one of the same id counts: what was somebody's own before Berth brought one of that name.
    const all = [...options.builtIn, ...options.store.providers()];
    this.#known = new Map(all.map((provider) => [provider.id, provider]));
  }

  all(): readonly Provider[] {
    return [...this.#known.values()];
  }

  find(id: string): Provider | undefined {
    return this.#known.get(id);
  }

  /** One in a network of one's own may need no key, one on the web does. */
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
    // Its last answers may come when it has been removed.
    if (!this.#known.has(id)) return;
    this.#status.set(id, status);
    this.#store.noteUsed(id, this.#clock.now());
  }

  /** Its credential is another one: what was known of it says nothing any more. */
  forgetStatus(id: string): void {
    this.#status.delete(id);
  }

  lastUsedMs(id: string): number | undefined {
    return this.#store.lastUsedMs(id);
  }
}
