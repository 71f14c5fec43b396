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
  /** Made with what this is: the sink of sign-ins. */
  readonly open: (sink: SignInSink) => SignIns;
  readonly ledger: Ledger;
}

/** Sign-ins from their begin to their end: in the ledger, into the vault, and told to whoever listens. */
export class Logins {
  readonly signIns: SignIns;
  readonly #ledger: Ledger;
  readonly #listeners = new Set<RemoteListener>();
  /** The session of each provider that was kept last, or is being kept. */
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

  /** Where sessions go; said before the first sign-in begins. Credentials renew by way of the sign-ins. */
  setDestination(into: {
    readonly credentials: ProviderCredentials;
    find(id: string): Provider | undefined;
  }): void {
    this.#destination = into;
  }

  async begin(provider: BuiltInProvider): Promise<string> {
    await this.appendEntry(provider, "begin");
    return this.signIns.begin(provider);
  }

  /** Resolves when nothing more comes of a sign-in that was under way: one that is being kept is too far on. */
  async cancel(provider: BuiltInProvider): Promise<void> {
    this.signIns.cancel(provider);
    await this.#keeping.get(provider)?.catch(() => {}); // told to whoever keeps it
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
      throw new Error("a sign-in ended before there was a place for it");
    await this.appendEntry(provider, "keep");
    await this.#destination.credentials.keep(known, session);
  }

  #completed(provider: BuiltInProvider, isOk: boolean, detail: LoginDetail): void {
    for (const listener of this.#listeners) listener.loginCompleted(provider, isOk, detail);
  }
}
