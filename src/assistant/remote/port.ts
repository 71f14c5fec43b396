import type { Caller } from "../caller.ts";
import type { DataClass } from "../data-class.ts";

/**
 * The providers of remote models, for the transports: the list of providers, write-only credentials, consent and
 * sign-in. Errors are AssistantErrors; a sandboxed caller gets `forbidden` from every method that changes something.
 * Each change is in the ledger before it takes effect.
 */
export interface RemoteService {
  state(): RemoteState;

  /**
   * Adds a provider and resolves its address once. `invalid_request` for an invalid id or address (`param`: `id`,
   * `display_name`, `base_url`), `exists` for an id that is in use, by a built-in provider, too; `forbidden` for an
   * address that no provider may have.
   */
  addProvider(provider: NewProvider, caller: Caller): Promise<void>;

  /**
   * Removes a provider with its key and ends the requests to it. `not_found`; `invalid_request` for a built-in
   * provider, which cannot be removed.
   */
  removeProvider(id: string, caller: Caller): Promise<void>;

  /**
   * Replaces the credential. A key in a descriptor is read only if the caller may set it. `not_found`,
   * `invalid_request` for text that cannot be a key, `storage_failed`.
   */
  setKey(id: string, key: string | (() => Promise<string>), caller: Caller): Promise<void>;

  /**
   * Removes the credential, if there is one, and ends the requests that use it. `not_found` for an unknown provider.
   */
  clearKey(id: string, caller: Caller): Promise<void>;

  /** `invalid_request` for an unknown scope. Revoking consent aborts the requests that need it. */
  setConsent(scope: string, isAllowed: boolean, caller: Caller): Promise<void>;

  /** Resolves to the URL at which the user signs in. `invalid_request` for a provider without sign-in. */
  beginLogin(id: string, caller: Caller): Promise<string>;

  /**
   * Deletes the stored session, if there is one, and ends the requests that use it. A sign-in in progress ends with
   * `cancelled`.
   */
  logout(id: string, caller: Caller): Promise<void>;

  /** Requests the ids of the provider's models now. Errors are those of a request to the provider. */
  listModels(id: string, signal: AbortSignal): Promise<readonly string[]>;

  /** Returns a function that ends the subscription. */
  subscribe(listener: RemoteListener): () => void;
}

export interface RemoteListener {
  loginCompleted(providerId: string, isOk: boolean, detail: LoginDetail): void;
}

/** `LoginCompleted.detail`. */
export const loginDetails = [
  "ok",
  "denied_by_user",
  "state_mismatch",
  "issuer_mismatch",
  "exchange_failed",
  "timeout",
  "superseded",
  "cancelled",
  "storage_failed",
] as const;
export type LoginDetail = (typeof loginDetails)[number];

export interface NewProvider {
  readonly id: string;
  readonly displayName: string;
  readonly baseUrl: string;
}

/** Providers that Berth knows and can sign in at. */
export type BuiltInProvider = "openrouter" | "huggingface";

/** The location of an address: on the web, on this machine, or in a private network. */
export type AddressClass = "public" | "loopback" | "private";

/** A provider, as it is stored. */
export interface Provider {
  /** `^[a-z0-9][a-z0-9_-]{0,31}$`. */
  readonly id: string;
  readonly displayName: string;
  /** Without a slash at the end: `https://openrouter.ai/api/v1`. */
  readonly baseUrl: string;
  /** The class of the address when it was added; connections to an address of another class are refused. */
  readonly addressClass: AddressClass;
  readonly builtin: boolean;
  /** How the user gets a credential: by entering a key, or by signing in (entering a key is possible as well). */
  readonly auth: "key" | "sign_in";
}

/** The JSON of State. It contains no secret, nor anything derived from one. */
export interface RemoteState {
  readonly v: 1;
  readonly providers: readonly ProviderState[];
  readonly consent: Readonly<Record<DataClass, boolean>>;
  readonly login: { readonly pending: readonly PendingLogin[] };
  readonly protection: Protection;
}

export interface ProviderState {
  readonly id: string;
  readonly display_name: string;
  readonly base_url: string;
  readonly builtin: boolean;
  readonly auth: "key" | "sign_in";
  readonly credential: CredentialState;
  readonly address_class: AddressClass;
  /** The result of the last answer; `unknown` after a start and after a change of the credential. */
  readonly status: ProviderStatus;
  /** RFC 3339. */
  readonly last_used: string | null;
}

export type ProviderStatus =
  | "unknown"
  | "ok"
  | "unauthorized"
  | "rate_limited"
  | "unreachable"
  | "failed";

export interface CredentialState {
  readonly present: boolean;
  readonly kind: "key" | "oauth" | null;
  /** RFC 3339. */
  readonly set_at: string | null;
  readonly expires_at: string | null;
}

export interface PendingLogin {
  readonly provider_id: string;
  /** RFC 3339. */
  readonly expires_at: string;
}

/** The protection of the credentials. */
export interface Protection {
  /** The location of the master key. */
  readonly source: "systemd-credential" | "secret-service" | "file";
  /** locked: the source does not provide the key now, so credentials can neither be read nor stored. */
  readonly state: "ready" | "locked";
  /** The reason why it is locked, and what to do. */
  readonly message: string | null;
}
