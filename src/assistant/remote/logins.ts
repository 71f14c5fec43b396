import type { Ledger } from "../ledger/port.ts";
import type {
  BuiltInProvider,
  LoginDetail,
  PendingLogin,
  Provider,
  RemoteListener,
} from "./port.ts";
import type { ProviderCredentials } from "./provider-credentials.ts";
import type { SignInSink, SignIns } from "./sign-in/port.ts";
import type { OAuthSession } from "./vault/port.ts";

export interface LoginsOptions {
  /**
   * Creates the implementation of SignIns. Called once with the Logins object, which receives the results of sign-ins.
   */
  readonly open: (sink: SignInSink) => SignIns;
  readonly ledger: Ledger;
}

/** Runs sign-ins: records them in the ledger, stores the sessions in the vault and notifies the subscribers. */
export class Logins {
  readonly signIns: SignIns;
  readonly #ledger: Ledger;
  readonly #listeners = new Set<RemoteListener>();
  /** For each provider, the last operation that stores a session. */
  readonly #keeping = new Map<BuiltInProvider, Promise<void>>();
  #destination:
    | { readonly credentials: ProviderCredentials; find(id: string): Provider | undefined }
    | undefined;

  constructor(options: LoginsOptions) {
    this.#ledger = options.ledger;
    this.signIns = options.open({
      keep: (provider, session) => {
        const keeping = this.#keep(provider, session);
        this.#keeping.set(provider, keeping);
        return keeping;
      },
      completed: (provider, isOk, detail) => this.#completed(provider, isOk, detail),
    });
  }

  /**
   * Sets the store for new sessions. Must be called before the first sign-in. The constructor cannot take the store,
   * because `credentials` is created later: it needs these sign-ins to renew sessions.
   */
  setDestination(into: {
    readonly credentials: ProviderCredentials;
    find(id: string): Provider | undefined;
  }): void {
    this.#destination = into;
  }

  /**
   * Starts a sign-in. Resolves when it has started, so that `cancel` ends it; `url` resolves to the URL for the user's
   * browser.
   */
  async begin(provider: BuiltInProvider): Promise<{ readonly url: Promise<string> }> {
    await this.appendEntry(provider, "begin");
    return { url: this.signIns.begin(provider) };
  }

  /**
   * Cancels a sign-in. Resolves when the sign-in can no longer store a session. A sign-in whose session is already
   * being stored is not cancelled.
   */
  async cancel(provider: BuiltInProvider): Promise<void> {
    this.signIns.cancel(provider);
    await this.#keeping.get(provider)?.catch(() => {}); // The sign-in itself reports this failure.
  }

  pending(): readonly PendingLogin[] {
    return this.signIns.pending();
  }

  revoke(provider: BuiltInProvider, session: OAuthSession): Promise<void> {
    return this.signIns.revoke(provider, session);
  }

  async appendEntry(provider: BuiltInProvider, step: "begin" | "keep" | "logout"): Promise<void> {
    await this.#ledger.append({ name: "remote.login", fields: { provider, step } });
  }

  subscribe(listener: RemoteListener): () => void {
    const own: RemoteListener = { loginCompleted: (...end) => listener.loginCompleted(...end) };
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  async #keep(provider: BuiltInProvider, session: OAuthSession): Promise<void> {
    const known = this.#destination?.find(provider);
    if (!this.#destination || !known)
      throw new Error(
        "a session cannot be stored: its provider is unknown, or setDestination was not called",
      );
    await this.appendEntry(provider, "keep");
    await this.#destination.credentials.keep(known, session);
  }

  #completed(provider: BuiltInProvider, isOk: boolean, detail: LoginDetail): void {
    for (const listener of this.#listeners) listener.loginCompleted(provider, isOk, detail);
  }
}
