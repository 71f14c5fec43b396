import type { CredentialState, Protection } from "../port.ts";

/**
 * Stores the encrypted credentials of providers. Only the egress and the sign-in read them; no transport does. A
 * credential is bound to its provider's origin and cannot be decrypted for another one.
 */
export interface Vault {
  /** Replaces the stored credential; it is on the disk when this resolves. Rejects with `storage_failed`. */
  put(provider: CredentialOwner, credential: Credential): Promise<void>;
  /**
   * Undefined if there is none, or only one for another origin. Rejects with `storage_failed` while the master key is
   * locked.
   */
  get(provider: CredentialOwner): Promise<Credential | undefined>;
  /** No byte of the credential remains in any file when this resolves. Resolves to false if there was none. */
  remove(providerId: string): Promise<boolean>;
  /** Returns the facts about a credential that are not secret. */
  describe(providerId: string): CredentialState;
  protection(): Protection;
}

export interface CredentialOwner {
  readonly id: string;
  /** `https://openrouter.ai`. */
  readonly origin: string;
}

export type Credential = { readonly kind: "key"; readonly key: string } | OAuthSession;

export interface OAuthSession {
  readonly kind: "oauth";
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
  /** Milliseconds since the Unix epoch; undefined if the provider does not say. */
  readonly expiresAtMs: number | undefined;
  /** The client id for which the tokens were issued. */
  readonly clientId: string;
}
