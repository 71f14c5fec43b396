import { Mutex } from "../../base/mutex.ts";
import { raceWithAbort } from "../../base/race-with-abort.ts";
import { AssistantError } from "../assistant-error.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import { type DataClass, dataClasses } from "../data-class.ts";
import type { Asker } from "../inference/service-port.ts";
import type { Ledger } from "../ledger/port.ts";
import type { AddressRules } from "./address/port.ts";
import { findBuiltInId } from "./built-in-providers.ts";
import type { Consent } from "./consent.ts";
import { type KeyRead, KeyReads } from "./key-reads.ts";
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
  readonly listModels: (
    id: string,
    signal: AbortSignal,
    asker: Asker,
  ) => Promise<readonly string[]>;
  readonly revocations: Revocations;
  /** Closes the idle connections to a removed provider. `revocations` ends its requests in progress. */
  readonly disconnect: (id: string) => Promise<void>;
  readonly ledger: Ledger;
}

/**
 * Manages providers, credentials and consent for the user. Changes take effect in the order of the calls: each method
 * takes its place in a queue before it waits for anything.
 */
export class RemoteManager implements RemoteService, AsyncDisposable {
  readonly #options: RemoteManagerOptions;
  readonly #changes = new Mutex();
  /**
   * Changes of consent have their own queue, so that a revocation does not wait while the address of a new provider is
   * resolved.
   */
  readonly #consentChanges = new Mutex();
  readonly #keyReads = new KeyReads();
  readonly #closing = new AbortController();

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
    const checking = addresses.check(request.baseUrl, this.#closing.signal);
    // If the id is taken, no code awaits this promise. This handler then prevents an unhandled rejection.
    checking.catch(() => {});
    await this.#changes.runExclusive(async () => {
      this.#assertIdFree(id);
      const { baseUrl, addressClass } = await checking;
      if (providers.all().length >= PROVIDERS_MAX)
        throw new AssistantError(
          "limits_exceeded",
          `there are ${PROVIDERS_MAX} providers already; remove one that you do not use`,
        );
      const fields = { provider: id, base_url: baseUrl, address_class: addressClass };
      await ledger.append({ name: "remote.provider.add", fields });
      providers.add({ id, displayName, baseUrl, addressClass, builtin: false, auth: "key" });
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
      this.#keyReads.cancel(id, "the provider was removed");
      revocations.end(id, new Revoked("model_not_found", `the provider ${id} was removed`, id));
      providers.remove(id);
      await this.#options.disconnect(id);
    });
  }

  async setKey(
    id: string,
    key: string | ((signal: AbortSignal) => Promise<string>),
    caller: Caller,
  ): Promise<void> {
    assertNotSandboxed(caller, "set keys");
    if (typeof key === "string")
      return this.#changes.runExclusive(() => this.#storeKey(this.#getProvider(id), key));
    // Other changes do not wait for the client that writes the key, but they may cancel the read.
    using read = await this.#changes.runExclusive(async () =>
      this.#keyReads.begin(this.#getProvider(id)),
    );
    const text = await raceWithAbort(key(read.signal), read.signal);
    await this.#changes.runExclusive(async () => {
      read.signal.throwIfAborted();
      await this.#storeKey(read.provider, text, read);
    });
  }

  async clearKey(id: string, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "clear keys");
    await this.#changes.runExclusive(async () => {
      const { wasThere } = await this.#options.credentials.clear(this.#getProvider(id));
      this.#options.providers.forgetStatus(id);
      this.#keyReads.cancel(id, "the key was cleared");
      // If the provider had no key, its requests in progress do not use one and can continue.
      if (wasThere) this.#endRequests(id, `the key of ${id} was cleared`);
    });
  }

  async setConsent(scope: string, isAllowed: boolean, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "change consent");
    const known = parseScope(scope);
    const { consent, ledger, store } = this.#options;
    await this.#consentChanges.runExclusive(async () => {
      await ledger.append({ name: "remote.consent", fields: { scope: known, allowed: isAllowed } });
      store.setConsent(known, isAllowed);
      consent.set(known, isAllowed);
    });
  }

  async beginLogin(id: string, caller: Caller): Promise<string> {
    assertNotSandboxed(caller, "sign in");
    // Only the start of the sign-in has a place in the queue, because the provider's metadata may have to be requested.
    const { url } = await this.#changes.runExclusive(async () => {
      const begun = await this.#options.logins.begin(this.#getSignInProvider(id));
      this.#keyReads.cancel(id, "a sign-in was started");
      return begun;
    });
    return await url;
  }

  async logout(id: string, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "sign out");
    const { logins, vault, credentials, providers } = this.#options;
    const former = await this.#changes.runExclusive(async () => {
      const builtIn = this.#getSignInProvider(id);
      await logins.cancel(builtIn);
      // The provider has no session: it has no credential, or the credential is a key.
      if (vault.describe(id).kind !== "oauth") return undefined;
      await logins.appendEntry(builtIn, "logout");
      const { session } = await credentials.clear(this.#getProvider(id));
      providers.forgetStatus(id);
      this.#endRequests(id, `you are signed out at ${id}`);
      return session && { builtIn, session };
    });
    if (former) await logins.revoke(former.builtIn, former.session);
  }

  listModels(id: string, caller: Caller, signal: AbortSignal): Promise<readonly string[]> {
    this.#getProvider(id);
    return this.#options.listModels(id, signal, { door: "settings", caller });
  }

  subscribe(listener: RemoteListener): () => void {
    return this.#options.logins.subscribe(listener);
  }

  /** Aborts the resolution of addresses and the reads of keys, and waits until all changes have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    const error = new AssistantError("shutting_down", "the assistant is shutting down");
    this.#closing.abort(error);
    this.#keyReads.cancelAll(error);
    await this.#changes.waitUntilIdle();
    await this.#consentChanges.waitUntilIdle();
  }

  /** Stores a key. It replaces every key whose read began before `read`, or before the call if there is no `read`. */
  async #storeKey(provider: Provider, text: string, read?: KeyRead): Promise<void> {
    const { credentials, providers } = this.#options;
    await credentials.setKey(provider, text);
    providers.forgetStatus(provider.id);
    this.#keyReads.cancel(provider.id, "another key was set", read);
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
      `there is no provider ${JSON.stringify(id.slice(0, 64))}; the providers are ${ids.join(", ")}`,
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
    `there is no scope ${JSON.stringify(scope.slice(0, 64))}; the scopes are ${dataClasses.join(", ")}`,
    { param: "scope" },
  );
}

/** Throws `forbidden` for a sandboxed app: only the user decides which data may leave the machine. */
function assertNotSandboxed(caller: Caller, what: string): void {
  const app = sandboxedApp(caller);
  if (app !== undefined)
    throw new AssistantError("forbidden", `${app} is sandboxed, and may not ${what}`);
}
