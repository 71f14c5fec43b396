import type { Caller } from "../caller.ts";
import type { DataClass } from "../data-class.ts";
import type { KeySourceName } from "../key-sources/port.ts";

/**
 * The providers of remote models, for the transports: the list of providers, write-only credentials, consent and
 * sign-in. Errors are AssistantErrors; a sandboxed caller gets `forbidden` from every method that changes something.
 * Each change is in the ledger before it takes effect, and changes take effect in the order of the calls.
 */
export interface RemoteService {
  state(): RemoteState;

  /**
   * Adds a provider and resolves its address once. Rejects with `invalid_request` for an invalid id or address
   * (`param`: `id`, `display_name`, `base_url`), with `exists` for an id that an added or a built-in provider has, and
   * with `forbidden` for an address that no provider may have.
   */
  addProvider(provider: NewProvider, caller: Caller): Promise<void>;

  /**
   * Removes a provider with its key and ends the requests to it. Rejects with `not_found` for an unknown provider, and
   * with `invalid_request` for a built-in provider, which cannot be removed.
   */
  removeProvider(id: string, caller: Caller): Promise<void>;

  /**
   * Replaces the provider's credential with a key. A key in a descriptor is read only if the caller may set it; other
   * changes go on meanwhile. If the provider is removed, or its key is cleared or set, before the key is read, the read
   * is aborted and the call rejects with `cancelled`. Also rejects with `not_found`, with `invalid_request` for text
   * that cannot be a key, and with `storage_failed`.
   */
  setKey(
    id: string,
    key: string | ((signal: AbortSignal) => Promise<string>),
    caller: Caller,
  ): Promise<void>;

  /**
   * Removes the provider's credential, if there is one, and ends the requests that use it. Rejects with `not_found` for
   * an unknown provider.
   */
  clearKey(id: string, caller: Caller): Promise<void>;

  /**
   * Allows or forbids sending data of the class `scope` to providers. Revoking consent aborts the requests that need
   * it. Rejects with `invalid_request` for an unknown class. If the change cannot be written, nothing changes. This is
   * safe for a revocation too: the caller knows that it failed, and no request is sent while the ledger cannot be
   * written.
   */
  setConsent(scope: string, isAllowed: boolean, caller: Caller): Promise<void>;

  /**
   * Starts a sign-in and resolves to the URL at which the user signs in. Rejects with `invalid_request` for a provider
   * without sign-in.
   */
  beginLogin(id: string, caller: Caller): Promise<string>;

  /**
   * Deletes the stored session, if there is one, and ends the requests that use it. A sign-in in progress ends with
   * `cancelled`.
   */
  logout(id: string, caller: Caller): Promise<void>;

  /** Requests the ids of the provider's models now. Rejects with the errors of a request to the provider. */
  listModels(id: string, caller: Caller, signal: AbortSignal): Promise<readonly string[]>;

  /** Registers a listener for the results of sign-ins. Returns a function that ends the subscription. */
  subscribe(listener: RemoteListener): () => void;
}

export interface RemoteListener {
  loginCompleted(providerId: string, isOk: boolean, detail: LoginDetail): void;
}

/** The possible values of `LoginCompleted.detail`. */
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

/** The ids of the providers that Berth knows and can sign in at. */
export type BuiltInProvider = "openrouter" | "huggingface";

/** The location of an address: on the web, on this machine, or in a private network. */
export type AddressClass = "public" | "loopback" | "private";

/** A provider of remote models, as the database stores it. */
export interface Provider {
  /** The provider's id, which matches `^[a-z0-9][a-z0-9_-]{0,31}$`. */
  readonly id: string;
  readonly displayName: string;
  /** The base URL without a slash at the end, for example `https://openrouter.ai/api/v1`. */
  readonly baseUrl: string;
  /**
   * The class of the provider's address when the provider was added. Connections to an address of another class are
   * refused.
   */
  readonly addressClass: AddressClass;
  readonly builtin: boolean;
  /** The ways in which the user can set a credential: by entering a key only, or by signing in or entering a key. */
  readonly auth: "key" | "sign_in";
}

/** The JSON document that the bus method State returns. It contains no secret, nor anything derived from a secret. */
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
  readonly credential: CredentialState & {
    /**
     * The source of the key that encrypts the credential, if that source does not provide the key now; null if the
     * credential can be read.
     */
    readonly locked_by: Protection["source"] | null;
  };
  readonly address_class: AddressClass;
  /**
   * The provider's status after its last answer. It is `unknown` after Berth has started and after the credential has
   * changed.
   */
  readonly status: ProviderStatus;
  /** The time of the last request to the provider, in RFC 3339 format. */
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
  /** The time when the credential was set, in RFC 3339 format. */
  readonly set_at: string | null;
  readonly expires_at: string | null;
}

export interface PendingLogin {
  readonly provider_id: string;
  /** The time until which the user can complete the sign-in, in RFC 3339 format. */
  readonly expires_at: string;
}

/** The protection of the stored credentials. */
export interface Protection {
  /** The place where Berth keeps the master key, which encrypts the credentials. */
  readonly source: KeySourceName;
  /**
   * The state `locked` means that the credential, keyring or file does not provide the master key now, so the
   * providers' credentials can neither be read nor stored.
   */
  readonly state: "ready" | "locked";
  /** The reason why the credentials are locked, and what the user can do about it. */
  readonly message: string | null;
}
