import type { OAuthSession } from "../vault/port.ts";

/** The sign-in protocol of one provider. */
export interface SignInProtocol {
  /**
   * Prepares a sign-in. `origin` is that of the listener; the protocol chooses the path of its callback. Rejects with
   * `unreachable` and `bad_response` as AssistantError, and with the signal's reason.
   */
  start(origin: string, signal: AbortSignal): Promise<StartedSignIn>;
  /**
   * Rejects with `unauthorized`, `unreachable`, `rate_limited`, `provider_failed` or `bad_response` as AssistantError.
   */
  refresh(session: OAuthSession, signal: AbortSignal): Promise<OAuthSession>;
  /** Resolves even if the provider cannot be reached. */
  revoke(session: OAuthSession, signal: AbortSignal): Promise<void>;
}

export interface StartedSignIn {
  /** The URL for the user's browser. */
  readonly authorizeUrl: string;
  /** True for the callback's path, which only the provider and the browser of this sign-in know. */
  isCallback(pathname: string): boolean;
  /**
   * Exchanges the callback for a session. Called at most once. Throws SignInFailure, AssistantError, or the signal's
   * reason.
   */
  redeem(callback: URL, signal: AbortSignal): Promise<OAuthSession>;
}
