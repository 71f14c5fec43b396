import type { CredentialState, Protection } from "../port.ts";

/**
 * Stores the encrypted credentials of providers. Only requests to providers and the sign-in read credentials; the D-Bus
 * and HTTP interfaces never do. A credential is bound to its provider's origin and cannot be decrypted for another one.
 */
export interface Vault {
  /**
   * Stores a credential and replaces the previous one. When this resolves, the credential is on the disk. Rejects with
   * `storage_failed`.
   */
  put(provider: CredentialOwner, credential: Credential): Promise<void>;
  /**
   * Resolves to the stored credential; undefined if there is none, or if the stored credential is bound to another
   * origin. Rejects with `storage_failed` while the master key is locked.
   */
  get(provider: CredentialOwner): Promise<Credential | undefined>;
  /**
   * Removes a credential. When this resolves, no byte of the credential remains in any file. Resolves to false if there
   * was no credential.
   */
  remove(providerId: string): Promise<boolean>;
  /** Returns the facts about a credential that are not secret. */
  describe(providerId: string): CredentialState;
  protection(): Protection;
}

export interface CredentialOwner {
  readonly id: string;
  /** The origin of the provider, for example `https://openrouter.ai`. */
  readonly origin: string;
}

export type Credential = { readonly kind: "key"; readonly key: string } | OAuthSession;

export interface OAuthSession {
  readonly kind: "oauth";
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
  /**
   * The end of the session's lifetime in milliseconds since the Unix epoch; undefined if the provider does not state
   * it.
   */
  readonly expiresAtMs: number | undefined;
  /** The client id for which the tokens were issued. */
  readonly clientId: string;
}
