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

/** A person has a handful; each may have connections and a list of models of its own. */
const PROVIDERS_MAX = 64;

export interface RemoteManagerOptions {
  readonly store: RemoteStore;
  readonly vault: Vault;
  readonly providers: Providers;
  readonly credentials: ProviderCredentials;
  readonly consent: Consent;
  readonly logins: Logins;
  readonly addresses: AddressRules;
  /** The ids of a provider's own list, asked for now. */
  readonly listModels: (id: string, signal: AbortSignal) => Promise<readonly string[]>;
  readonly revocations: Revocations;
  /** Ends connections that are kept to a provider. */
  readonly disconnect: (id: string) => Promise<void>;
  readonly ledger: Ledger;
}

/** Providers, credentials and consent as a person changes them. */
export class RemoteManager implements RemoteService, AsyncDisposable {
  readonly #options: RemoteManagerOptions;
  readonly #changes = new Mutex();
  readonly #closing = new AbortController();
  /** How often consent was taken back: what was allowed before that must not come after it. */
  readonly #revocationCounts = new Map<DataClass, number>();

  constructor(options: RemoteManagerOptions) {
    this.#options = options;
  }

  state(): RemoteState {
    return buildRemoteState(this.#options);
  }

  async addProvider(wanted: NewProvider, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "add providers");
    const { providers, addresses, ledger } = this.#options;
    const id = validateProviderId(wanted.id);
    const displayName = validateDisplayName(wanted.displayName === "" ? id : wanted.displayName);
    this.#assertIdFree(id);
    const { baseUrl, addressClass } = await addresses.check(wanted.baseUrl, this.#closing.signal);
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
          `there are ${PROVIDERS_MAX} providers already; remove one that is not used`,
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
      const { credentials, ledger, providers, revocations: revocations } = this.#options;
      if (provider.builtin)
        throw new AssistantError(
          "invalid_request",
          `${id} is built in and stays; clear its key, or sign out, to use it no more`,
          { param: "id" },
        );
      await ledger.append({ name: "remote.provider.remove", fields: { provider: id } });
      // The key first: no key is ever left without the provider by which it could be removed.
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
      // What goes without a key goes on without one.
      if (wasThere) this.#endRequests(id, `the key of ${id} was cleared`);
    });
  }

  async setConsent(scope: string, isAllowed: boolean, caller: Caller): Promise<void> {
    assertNotSandboxed(caller, "give or take consent");
    const known = parseScope(scope);
    const { consent, ledger, store } = this.#options;
    const times = this.#revocationCounts.get(known) ?? 0;
    // Taking back counts at once, also where it can be written down nowhere: nothing may go on leaving
    // because a disk is full.
    if (!isAllowed) {
      this.#revocationCounts.set(known, times + 1);
      consent.set(known, false);
    }
    await this.#changes.runExclusive(async () => {
      const fields = { scope: known, allowed: isAllowed };
      const written = ledger.append({ name: "remote.consent", fields });
      // Nor may it come back with the next start, because the ledger could not be written.
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
      // Nothing to forget, or a key that was written down, which is no session.
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

  /** Looking for addresses ends; changes that are under way are waited for. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is shutting down"));
    await this.#changes.waitUntilIdle();
  }

  #endRequests(id: string, why: string): void {
    this.#options.revocations.end(id, new Revoked("unauthorized", why, id));
  }

  /** Throws `not_found`. */
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
    throw new AssistantError(
      "invalid_request",
      `one cannot sign in at ${id}; give it a key instead`,
      { param: "id" },
    );
  }

  #assertIdFree(id: string): void {
    if (!this.#options.providers.find(id)) return;
    throw new AssistantError("exists", `there is a provider ${id} already`, { param: "id" });
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

/** Throws `forbidden` for an app that is confined: what leaves the machine is for the person to decide. */
function assertNotSandboxed(caller: Caller, what: string): void {
  const app = sandboxedApp(caller);
  if (app !== undefined)
    throw new AssistantError("forbidden", `${app} is sandboxed, and may not ${what}`);
}
