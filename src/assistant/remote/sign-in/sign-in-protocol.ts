import type { OAuthSession } from "../vault/port.ts";

/** How one provider signs people in. */
export interface SignInProtocol {
  /**
   * What is needed before a browser is sent away. `origin` is that of the listener; a callback is a path on it
   * of the protocol's own choice. `unreachable` and `bad_response` as AssistantError; the signal's reason.
   */
  start(origin: string, signal: AbortSignal): Promise<StartedSignIn>;
  /** `unauthorized`, `unreachable`, `rate_limited`, `provider_failed` or `bad_response` as AssistantError. */
  refresh(session: OAuthSession, signal: AbortSignal): Promise<OAuthSession>;
  /** Resolves also where the provider cannot be told. */
  revoke(session: OAuthSession, signal: AbortSignal): Promise<void>;
}

export interface StartedSignIn {
  /** For the person's browser. */
  readonly authorizeUrl: string;
  /** Whether the provider, and nobody who does not know this sign-in, would come back to this path. */
  isCallback(pathname: string): boolean;
  /** What the callback gives. Called once at most. Throws SignInFailure, AssistantError, or the signal's reason. */
  redeem(callback: URL, signal: AbortSignal): Promise<OAuthSession>;
}
