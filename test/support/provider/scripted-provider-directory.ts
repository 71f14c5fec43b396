import type { ProviderDirectory } from "../../../src/assistant/remote/egress/port.ts";
import type { AddressClass, Provider, ProviderStatus } from "../../../src/assistant/remote/port.ts";
import { Revocations } from "../../../src/assistant/remote/revocations.ts";

/** A fixed list of providers, each with its key. */
export class ScriptedProviderDirectory implements ProviderDirectory {
  /** Only the last status of each provider is stored, because a benchmark reports ten thousand of them. */
  readonly statuses = new Map<string, ProviderStatus>();
  readonly revocations = new Revocations();
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

  onRevoked(...given: Parameters<ProviderDirectory["onRevoked"]>): () => void {
    return this.revocations.onRevoked(...given);
  }
}
