import type { Caller } from "../caller.ts";
import type { DataClass } from "../data-class.ts";

/**
 * Providers of models elsewhere, as the transports see them: who they are, credentials that are only ever
 * written, consent, and signing in. Errors are AssistantErrors; a sandboxed caller gets `forbidden` from
 * everything that changes something. Each write is in the ledger before it is done.
 */
export interface RemoteService {
  state(): RemoteState;

  /**
   * `invalid_request` for an id or an address that cannot be one (`param`: `id`, `display_name`, `base_url`),
   * `exists` for an id that is taken, by a built-in provider also; `forbidden` for an address that no
   * provider may have. Resolves the address, once.
   */
  addProvider(wanted: NewProvider, caller: Caller): Promise<void>;

  /** With its key, and what is under way at it. `not_found`; `invalid_request` for a built-in one, which stays. */
  removeProvider(id: string, caller: Caller): Promise<void>;

  /**
   * Replaces what there was; a key that has yet to be read is read of those only who may set it. `not_found`,
   * `invalid_request` for a key that cannot be one, `storage_failed`.
   */
  setKey(id: string, key: string | (() => Promise<string>), caller: Caller): Promise<void>;

  /** Also where there is none. Ends what is under way by it. `not_found` where there is no such provider. */
  clearKey(id: string, caller: Caller): Promise<void>;

  /** `invalid_request` for a scope that there is not. Taking consent back aborts what is under way by it. */
  setConsent(scope: string, isAllowed: boolean, caller: Caller): Promise<void>;

  /** The URL at which the person signs in. `invalid_request` for a provider that has no sign-in. */
  beginLogin(id: string, caller: Caller): Promise<string>;

  /** Forgets a stored session, and ends what is under way by it, a sign-in also (`cancelled`). Also where there is none. */
  logout(id: string, caller: Caller): Promise<void>;

  /** The ids of the provider's own list, asked for now. Errors as those of a request to it. */
  listModels(id: string, signal: AbortSignal): Promise<readonly string[]>;

  /** The function that it returns ends the subscription. */
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

/** Providers that Berth knows by itself, and can sign in at. */
export type BuiltInProvider = "openrouter" | "huggingface";

/** Where an address is: on the web, on this machine, or in a network of one's own. */
export type AddressClass = "public" | "loopback" | "private";

/** A provider as it is kept. */
export interface Provider {
  /** `^[a-z0-9][a-z0-9_-]{0,31}$`. */
  readonly id: string;
  readonly displayName: string;
  /** Without a slash at its end: `https://openrouter.ai/api/v1`. */
  readonly baseUrl: string;
  /** Of the address when it was given; a connection to one of another class is refused. */
  readonly addressClass: AddressClass;
  readonly builtin: boolean;
  /** How one gets a key: writes it down oneself, or signs in (and may still write one down). */
  readonly auth: "key" | "sign_in";
}

/** State's JSON. Nothing in it is, or is made of, a secret. */
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
  /** What its last answer told; `unknown` since the start, or since its key was changed. */
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

/** What credentials are encrypted by. */
export interface Protection {
  /** Where the master key is. */
  readonly source: "systemd-credential" | "secret-service" | "file";
  /** locked: the source does not give the key now; nothing can be read or written. */
  readonly state: "ready" | "locked";
  /** Why it is locked, and what to do. */
  readonly message: string | null;
}
