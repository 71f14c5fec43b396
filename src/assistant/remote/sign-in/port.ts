import type { BuiltInProvider, LoginDetail, PendingLogin } from "../port.ts";
import type { OAuthSession } from "../vault/port.ts";

/** Sign-in at the built-in providers by OAuth, with a listener on this machine. */
export interface SignIns {
  /**
   * Opens the listener and resolves to the URL for the user's browser. Each provider has at most one sign-in, so an
   * earlier one ends as `superseded`. Rejects with `unreachable` or `bad_response` if the provider's metadata is not
   * available, and with `cancelled` if the sign-in was ended before there was a URL. After a rejection, `completed` is
   * not called.
   */
  begin(provider: BuiltInProvider): Promise<string>;
  /**
   * Ends a sign-in in progress as `cancelled`. If its session is already being stored, the result of storing it applies
   * instead.
   */
  cancel(provider: BuiltInProvider): void;
  pending(): readonly PendingLogin[];
  /** Renews a session that is about to expire. Rejects with `unauthorized` if the provider refuses. */
  refresh(
    provider: BuiltInProvider,
    session: OAuthSession,
    signal: AbortSignal,
  ): Promise<OAuthSession>;
  /** Revokes a session at the provider, if the provider supports it. Never rejects; takes 5 s at most. */
  revoke(provider: BuiltInProvider, session: OAuthSession): Promise<void>;
}

/** Stores the sessions of successful sign-ins, and receives the outcome of each sign-in. */
export interface SignInSink {
  /**
   * Records the session in the ledger, then stores it in the vault. If this rejects, the sign-in ends with
   * `storage_failed`.
   */
  keep(provider: BuiltInProvider, session: OAuthSession): Promise<void>;
  /** Called exactly once for each `begin` that has resolved to a URL. */
  completed(provider: BuiltInProvider, isOk: boolean, detail: LoginDetail): void;
}
