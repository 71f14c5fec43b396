import type { ProviderBook } from "../../../src/assistant/remote/egress/port.ts";
import type { AddressClass, Provider, ProviderStatus } from "../../../src/assistant/remote/port.ts";
import { Withdrawals } from "../../../src/assistant/remote/withdrawals.ts";

/** Providers that a test knows, each with its key. */
export class ScriptedBook implements ProviderBook {
  /** The last of each: a bench asks ten thousand times. */
  readonly statuses = new Map<string, ProviderStatus>();
  readonly withdrawals = new Withdrawals();
  readonly #known = new Map<string, { provider: Provider; key: string | undefined }>();

  add(id: string, baseUrl: string, key?: string, addressClass: AddressClass = "loopback"): void {
    const auth = "key" as const;
    const provider = { id, displayName: id, baseUrl, addressClass, builtin: false, auth };
    this.#known.set(id, { provider, key });
  }

  find(id: string): Provider | undefined {
    return this.#known.get(id)?.provider;
  }

  usable(): readonly Provider[] {
    return [...this.#known.values()].map(({ provider }) => provider);
  }

  async bearer({ id }: Provider): Promise<string | undefined> {
    return this.#known.get(id)?.key;
  }

  noteStatus(id: string, status: ProviderStatus): void {
    this.statuses.set(id, status);
  }

  onWithdrawn(...given: Parameters<ProviderBook["onWithdrawn"]>): () => void {
    return this.withdrawals.on(...given);
  }
}
