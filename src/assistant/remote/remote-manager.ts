import { Mutex } from "../../base/mutex.ts";
import { AssistantError } from "../assistant-error.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import { type DataClass, dataClasses } from "../data-class.ts";
import type { Ledger } from "../ledger/port.ts";
import type { AddressRules } from "./address/port.ts";
import { findBuiltInId } from "./built-in-providers.ts";
import type { Consent } from "./consent.ts";
import type { Logins } from "./logins.ts";
import type {
  BuiltInProvider,
  NewProvider,
  Provider,
  RemoteListener,
  RemoteService,
  RemoteState,
} from "./port.ts";
import type { ProviderCredentials } from "./provider-credentials.ts";
import { validateDisplayName, validateProviderId } from "./provider-names.ts";
import type { Providers } from "./providers.ts";
import { buildRemoteState } from "./remote-state.ts";
import { type Revocations, Revoked } from "./revocations.ts";
import type { RemoteStore } from "./store/remote-store.ts";
import type { Vault } from "./vault/port.ts";

/**
 * The largest number of providers. Users have a handful; each provider may have connections and a list of models in
 * memory.
 */
const PROVIDERS_MAX = 64;

export interface RemoteManagerOptions {
  readonly store: RemoteStore;
  readonly vault: Vault;
  readonly providers: Providers;
  readonly credentials: ProviderCredentials;
  readonly consent: Consent;
  readonly logins: Logins;
  readonly addresses: AddressRules;
  /** Requests the ids of a provider's models now. */
  readonly listModels: (id: string, signal: AbortSignal) => Promise<readonly string[]>;
  readonly revocations: Revocations;
  /** Closes the idle connections to a removed provider. `revocations` ends its requests in progress. */
  readonly disconnect: (id: string) => Promise<void>;
  readonly ledger: Ledger;
}

/** Manages providers, credentials and consent for the user. */
export class RemoteManager implements RemoteService, AsyncDisposable {
  readonly #options: RemoteManagerOptions;
  readonly #changes = new Mutex();
  readonly #closing = new AbortController();
  /**
   * The number of revocations of each data class, so that a grant which began before a revocation cannot take effect
   * after it.
   */
  readonly #revocationCounts = new Map<DataClass, number>();

  constructor(options: RemoteManagerOptions) {
    this.#options = options;
  }

  state(): RemoteState {
    return buildRemoteState(this.#options);
  }

  async addProvider(request: NewProvider, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "add providers");
    const { providers, addresses, ledger } = this.#options;
    const id = validateProviderId(request.id);
    const displayName = validateDisplayName(request.displayName === "" ? id : request.displayName);
    this.#assertIdFree(id);
    const { baseUrl, addressClass } = await addresses.check(request.baseUrl, this.#closing.signal);
    const provider = {
      id,
      displayName,
      baseUrl,
      addressClass,
      builtin: false,
      auth: "key",
    } as const;
    await this.#changes.runExclusive(async () => {
      this.#assertIdFree(id);
      if (providers.all().length >= PROVIDERS_MAX)
        throw new AssistantError(
          "limits_exceeded",
          `there are ${PROVIDERS_MAX} providers already; remove one that you do not use`,
        );
      const fields = { provider: id, base_url: baseUrl, address_class: addressClass };
      await ledger.append({ name: "remote.provider.add", fields });
      providers.add(provider);
    });
  }

  async removeProvider(id: string, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "remove providers");
    await this.#changes.runExclusive(async () => {
      const provider = this.#getProvider(id);
      const { credentials, ledger, providers, revocations } = this.#options;
      if (provider.builtin)
        throw new AssistantError(
          "invalid_request",
          `${id} is built in and cannot be removed; to stop using it, clear its key or sign out`,
          { param: "id" },
        );
      await ledger.append({ name: "remote.provider.remove", fields: { provider: id } });
      // The key is removed first, so that a key never remains without its provider. The user could not remove such a
      // key.
      await credentials.clear(provider);
      revocations.end(id, new Revoked("model_not_found", `the provider ${id} was removed`, id));
      providers.remove(id);
      await this.#options.disconnect(id);
    });
  }

  async setKey(id: string, key: string | (() => Promise<string>), caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "set keys");
    this.#getProvider(id);
    const text = typeof key === "string" ? key : await key();
    await this.#changes.runExclusive(async () => {
      await this.#options.credentials.setKey(this.#getProvider(id), text);
      this.#options.providers.forgetStatus(id);
    });
  }

  async clearKey(id: string, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "clear keys");
    await this.#changes.runExclusive(async () => {
      const { wasThere } = await this.#options.credentials.clear(this.#getProvider(id));
      this.#options.providers.forgetStatus(id);
      // If the provider had no key, its requests in progress do not use one and can continue.
      if (wasThere) this.#endRequests(id, `the key of ${id} was cleared`);
    });
  }

  async setConsent(scope: string, isAllowed: boolean, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "change consent");
    const known = parseScope(scope);
    const { consent, ledger, store } = this.#options;
    const times = this.#revocationCounts.get(known) ?? 0;
    // A revocation takes effect at once, even if it cannot be stored: when the disk is full, data must not continue to
    // leave the machine.
    if (!isAllowed) {
      this.#revocationCounts.set(known, times + 1);
      consent.set(known, false);
    }
    await this.#changes.runExclusive(async () => {
      const fields = { scope: known, allowed: isAllowed };
      const written = ledger.append({ name: "remote.consent", fields });
      // The revocation is stored even if the ledger could not be written. Otherwise the consent would return at the
      // next start.
      await (isAllowed ? written : written.finally(() => store.setConsent(known, false)));
      if (!isAllowed || (this.#revocationCounts.get(known) ?? 0) !== times) return;
      store.setConsent(known, true);
      consent.set(known, true);
    });
  }

  async beginLogin(id: string, caller: Caller): Promise<string> {
    assertNotSandboxed(caller, "sign in");
    return this.#options.logins.begin(this.#getSignInProvider(id));
  }

  async logout(id: string, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "sign out");
    const builtIn = this.#getSignInProvider(id);
    const { logins, vault, credentials, providers } = this.#options;
    await logins.cancel(builtIn);
    const session = await this.#changes.runExclusive(async () => {
      // The provider has no session: it has no credential, or the credential is a key.
      if (vault.describe(id).kind !== "oauth") return undefined;
      await logins.appendEntry(builtIn, "logout");
      const cleared = await credentials.clear(this.#getProvider(id));
      providers.forgetStatus(id);
      this.#endRequests(id, `you are signed out at ${id}`);
      return cleared.session;
    });
    if (session) await logins.revoke(builtIn, session);
  }

  listModels(id: string, signal: AbortSignal): Promise<readonly string[]> {
    this.#getProvider(id);
    return this.#options.listModels(id, signal);
  }

  subscribe(listener: RemoteListener): () => void {
    return this.#options.logins.subscribe(listener);
  }

  /**
   * Aborts the resolution of provider addresses, and waits until all changes of providers that have begun are complete.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is shutting down"));
    await this.#changes.waitUntilIdle();
  }

  #endRequests(id: string, why: string): void {
    this.#options.revocations.end(id, new Revoked("unauthorized", why, id));
  }

  /** Returns the provider. Throws `not_found` if the id is unknown. */
  #getProvider(id: string): Provider {
    const provider = this.#options.providers.find(id);
    if (provider) return provider;
    const ids = this.#options.providers.all().map((known) => known.id);
    throw new AssistantError(
      "not_found",
      `there is no provider ${JSON.stringify(id.slice(0, 64))}; there are ${ids.join(", ")}`,
      { param: "id" },
    );
  }

  #getSignInProvider(id: string): BuiltInProvider {
    const { auth } = this.#getProvider(id);
    const builtIn = findBuiltInId(id);
    if (builtIn !== undefined && auth === "sign_in") return builtIn;
    throw new AssistantError("invalid_request", `${id} has no sign-in; set a key instead`, {
      param: "id",
    });
  }

  #assertIdFree(id: string): void {
    if (!this.#options.providers.find(id)) return;
    throw new AssistantError("exists", `a provider ${id} exists already`, { param: "id" });
  }
}

function parseScope(scope: string): DataClass {
  const known = dataClasses.find((name) => name === scope);
  if (known !== undefined) return known;
  throw new AssistantError(
    "invalid_request",
    `there is no scope ${JSON.stringify(scope.slice(0, 64))}; there are ${dataClasses.join(", ")}`,
    { param: "scope" },
  );
}

/** Throws `forbidden` for a sandboxed app: only the user decides which data may leave the machine. */
function assertNotSandboxed(caller: Caller, what: string): void {
  const app = sandboxedApp(caller);
  if (app !== undefined)
    throw new AssistantError("forbidden", `${app} is sandboxed, and may not ${what}`);
}
