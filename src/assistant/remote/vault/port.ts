import type { CredentialState, Protection } from "../port.ts";

/**
 * Credentials of providers, encrypted. Only the egress and the sign-in read one; no transport does. A
 * credential is bound to the origin of its provider: with another one it cannot be read.
 */
export interface Vault {
  /** Replaces what there was; when it resolves it is on the disk. `storage_failed`. */
  put(provider: CredentialOwner, credential: Credential): Promise<void>;
  /** Undefined: there is none, or it was for another origin. `storage_failed` while the master key is locked. */
  get(provider: CredentialOwner): Promise<Credential | undefined>;
  /** No byte of it is left in any file when it resolves. False: there was none. */
  remove(providerId: string): Promise<boolean>;
  /** What can be told of it. */
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
  /** Unix time; undefined: it does not say. */
  readonly expiresAtMs: number | undefined;
  /** With which the tokens were got. */
  readonly clientId: string;
}
