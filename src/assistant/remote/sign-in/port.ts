import type { BuiltInProvider, LoginDetail, PendingLogin } from "../port.ts";
import type { OAuthSession } from "../vault/port.ts";

/** Signing in at the built-in providers, by OAuth with a listener on this machine. */
export interface SignIns {
  /**
   * Opens the listener, and resolves to the URL for the person's browser. One sign-in for each provider: the one
   * before ends as `superseded`. `unreachable` and `bad_response` where the provider's own metadata cannot be had;
   * `cancelled` where it was ended before there was a URL, which `completed` does not tell.
   */
  begin(provider: BuiltInProvider): Promise<string>;
  /** Ends a sign-in under way as `cancelled`; one whose session is being kept already ends as the sink says. */
  cancel(provider: BuiltInProvider): void;
  pending(): readonly PendingLogin[];
  /** A session that is about to end, anew. `unauthorized` where the provider does not renew it. */
  refresh(
    provider: BuiltInProvider,
    session: OAuthSession,
    signal: AbortSignal,
  ): Promise<OAuthSession>;
  /** Tells the provider that a session is over, where it can be told. Never rejects; takes 5 s at most. */
  revoke(provider: BuiltInProvider, session: OAuthSession): Promise<void>;
}

/** Where sign-ins end. */
export interface SignInSink {
  /** The ledger first, then the vault. Rejects where it could not be kept: `storage_failed`. */
  keep(provider: BuiltInProvider, session: OAuthSession): Promise<void>;
  /** Exactly once for each `begin` that resolved. */
  completed(provider: BuiltInProvider, isOk: boolean, detail: LoginDetail): void;
}
