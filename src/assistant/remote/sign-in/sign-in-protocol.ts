import type { OAuthSession } from "../vault/port.ts";

/** The protocol by which one provider signs users in. */
export interface SignInProtocol {
  /**
   * Prepares a sign-in. `origin` is the listener's origin; the protocol chooses the path of the callback. Rejects with
   * AssistantError `unreachable` or `bad_response`, and with the signal's reason.
   */
  start(origin: string, signal: AbortSignal): Promise<StartedSignIn>;
  /**
   * Renews a session. Rejects with AssistantError `unauthorized`, `unreachable`, `rate_limited`, `provider_failed` or
   * `bad_response`.
   */
  refresh(session: OAuthSession, signal: AbortSignal): Promise<OAuthSession>;
  /** Revokes a session at the provider. Resolves even if the provider cannot be reached. */
  revoke(session: OAuthSession, signal: AbortSignal): Promise<void>;
}

export interface StartedSignIn {
  /** The URL that the user's browser opens. */
  readonly authorizeUrl: string;
  /** Returns true for the path of the callback, which only the provider and the browser of this sign-in know. */
  isCallback(pathname: string): boolean;
  /**
   * Exchanges the code of a callback for a session. Called at most once. Throws SignInFailure, AssistantError, or the
   * signal's reason.
   */
  redeem(callback: URL, signal: AbortSignal): Promise<OAuthSession>;
}
