import { type Caller, sandboxedApp } from "../caller.ts";
import { type DataClass, dataClasses } from "../data-class.ts";
import { AssistantError } from "../errors.ts";
import type { Ledger } from "../ledger/port.ts";
import type { AddressRules } from "./address/port.ts";
import { builtInId } from "./built-in.ts";
import type { Consent } from "./consent.ts";
import type { Credentials } from "./credentials.ts";
import { InOrder } from "./in-order.ts";
import type { Logins } from "./logins.ts";
import type {
  BuiltInProvider,
  NewProvider,
  Provider,
  RemoteListener,
  RemoteService,
  RemoteState,
} from "./port.ts";
import { checkedName, checkedProviderId } from "./provider-names.ts";
import type { Providers } from "./providers.ts";
import { remoteState } from "./state.ts";
import type { RemoteStore } from "./store/remote-store.ts";
import type { Vault } from "./vault/port.ts";
import { type Withdrawals, Withdrawn } from "./withdrawals.ts";

/** A person has a handful; each may have connections and a list of models of its own. */
const PROVIDERS_MAX = 64;

export interface RemoteOptions {
  readonly store: RemoteStore;
  readonly vault: Vault;
  readonly providers: Providers;
  readonly credentials: Credentials;
  readonly consent: Consent;
  readonly logins: Logins;
  readonly addresses: AddressRules;
  /** The ids of a provider's own list, asked for now. */
  readonly listModels: (id: string, signal: AbortSignal) => Promise<readonly string[]>;
  readonly withdrawals: Withdrawals;
  /** Ends connections that are kept to a provider. */
  readonly disconnect: (id: string) => Promise<void>;
  readonly ledger: Ledger;
}

/** Providers, credentials and consent as a person changes them. */
export class Remote implements RemoteService, AsyncDisposable {
  readonly #options: RemoteOptions;
  readonly #changes = new InOrder();
  readonly #closing = new AbortController();
  /** How often consent was taken back: what was allowed before that must not come after it. */
  readonly #timesTakenBack = new Map<DataClass, number>();

  constructor(options: RemoteOptions) {
    this.#options = options;
  }

  state(): RemoteState {
    return remoteState(this.#options);
  }

  async addProvider(wanted: NewProvider, caller: Caller): Promise<void> {
    refuseSandboxed(caller, "add providers");
    const { providers, addresses, ledger } = this.#options;
    const id = checkedProviderId(wanted.id);
    const displayName = checkedName(wanted.displayName === "" ? id : wanted.displayName);
    this.#refuseTaken(id);
    const { baseUrl, addressClass } = await addresses.check(wanted.baseUrl, this.#closing.signal);
    const provider = {
      id,
      displayName,
      baseUrl,
      addressClass,
      builtin: false,
      auth: "key",
    } as const;
    await this.#changes.run(async () => {
      this.#refuseTaken(id);
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
    refuseSandboxed(caller, "remove providers");
    await this.#changes.run(async () => {
      const provider = this.#known(id);
      const { credentials, ledger, providers, withdrawals } = this.#options;
      if (provider.builtin)
        throw new AssistantError(
          "invalid_request",
          `${id} is built in and stays; clear its key, or sign out, to use it no more`,
          { param: "id" },
        );
      await ledger.append({ name: "remote.provider.remove", fields: { provider: id } });
      // The key first: no key is ever left without the provider by which it could be removed.
      await credentials.clear(provider);
      withdrawals.end(id, new Withdrawn("model_not_found", `the provider ${id} was removed`, id));
      providers.remove(id);
      await this.#options.disconnect(id);
    });
  }

  async setKey(id: string, key: string | (() => Promise<string>), caller: Caller): Promise<void> {
    refuseSandboxed(caller, "set keys");
    this.#known(id);
    const text = typeof key === "string" ? key : await key();
    await this.#changes.run(async () => {
      await this.#options.credentials.setKey(this.#known(id), text);
      this.#options.providers.forgetStatus(id);
    });
  }

  async clearKey(id: string, caller: Caller): Promise<void> {
    refuseSandboxed(caller, "clear keys");
    await this.#changes.run(async () => {
      const { wasThere } = await this.#options.credentials.clear(this.#known(id));
      this.#options.providers.forgetStatus(id);
      // What goes without a key goes on without one.
      if (wasThere) this.#endRequests(id, `the key of ${id} was cleared`);
    });
  }

  async setConsent(scope: string, isAllowed: boolean, caller: Caller): Promise<void> {
    refuseSandboxed(caller, "give or take consent");
    const known = checkedScope(scope);
    const { consent, ledger, store } = this.#options;
    const times = this.#timesTakenBack.get(known) ?? 0;
    // Taking back counts at once, also where it can be written down nowhere: nothing may go on leaving
    // because a disk is full.
    if (!isAllowed) {
      this.#timesTakenBack.set(known, times + 1);
      consent.set(known, false);
    }
    await this.#changes.run(async () => {
      const fields = { scope: known, allowed: isAllowed };
      const written = ledger.append({ name: "remote.consent", fields });
      // Nor may it come back with the next start, because the ledger could not be written.
      await (isAllowed ? written : written.finally(() => store.setConsent(known, false)));
      if (!isAllowed || (this.#timesTakenBack.get(known) ?? 0) !== times) return;
      store.setConsent(known, true);
      consent.set(known, true);
    });
  }

  async beginLogin(id: string, caller: Caller): Promise<string> {
    refuseSandboxed(caller, "sign in");
    return this.#options.logins.begin(this.#signInAt(id));
  }

  async logout(id: string, caller: Caller): Promise<void> {
    refuseSandboxed(caller, "sign out");
    const builtIn = this.#signInAt(id);
    const { logins, vault, credentials, providers } = this.#options;
    await logins.cancel(builtIn);
    const session = await this.#changes.run(async () => {
      // Nothing to forget, or a key that was written down, which is no session.
      if (vault.describe(id).kind !== "oauth") return undefined;
      await logins.note(builtIn, "logout");
      const cleared = await credentials.clear(this.#known(id));
      providers.forgetStatus(id);
      this.#endRequests(id, `you are signed out at ${id}`);
      return cleared.session;
    });
    if (session) await logins.revoke(builtIn, session);
  }

  listModels(id: string, signal: AbortSignal): Promise<readonly string[]> {
    this.#known(id);
    return this.#options.listModels(id, signal);
  }

  subscribe(listener: RemoteListener): () => void {
    return this.#options.logins.subscribe(listener);
  }

  /** Looking for addresses ends; changes that are under way are waited for. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is shutting down"));
    await this.#changes.settled();
  }

  #endRequests(id: string, why: string): void {
    this.#options.withdrawals.end(id, new Withdrawn("unauthorized", why, id));
  }

  /** Throws `not_found`. */
  #known(id: string): Provider {
    const provider = this.#options.providers.find(id);
    if (provider) return provider;
    const ids = this.#options.providers.all().map((known) => known.id);
    throw new AssistantError(
      "not_found",
      `there is no provider ${JSON.stringify(id.slice(0, 64))}; there are ${ids.join(", ")}`,
      { param: "id" },
    );
  }

  #signInAt(id: string): BuiltInProvider {
    const { auth } = this.#known(id);
    const builtIn = builtInId(id);
    if (builtIn !== undefined && auth === "sign_in") return builtIn;
    throw new AssistantError(
      "invalid_request",
      `one cannot sign in at ${id}; give it a key instead`,
      { param: "id" },
    );
  }

  #refuseTaken(id: string): void {
    if (!this.#options.providers.find(id)) return;
    throw new AssistantError("exists", `there is a provider ${id} already`, { param: "id" });
  }
}

function checkedScope(scope: string): DataClass {
  const known = dataClasses.find((name) => name === scope);
  if (known !== undefined) return known;
  throw new AssistantError(
    "invalid_request",
    `there is no scope ${JSON.stringify(scope.slice(0, 64))}; there are ${dataClasses.join(", ")}`,
    { param: "scope" },
  );
}

/** Throws `forbidden` for an app that is confined: what leaves the machine is for the person to decide. */
function refuseSandboxed(caller: Caller, what: string): void {
  const app = sandboxedApp(caller);
  if (app !== undefined)
    throw new AssistantError("forbidden", `${app} is sandboxed, and may not ${what}`);
}
