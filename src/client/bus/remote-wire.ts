import {
  filterTexts,
  getField,
  getText,
  getTextOrUndefined,
  toItems,
  unexpectedAnswer,
} from "./json-fields.ts";

/**
 * This module parses the parts of Remote1's JSON that the command line shows. Texts in that JSON come from the user
 * or a provider.
 */

/** The kinds of data that can be sent to a provider, in the order in which they are shown. */
export const consentScopes = ["prompt", "files", "mail", "calendar", "screen", "memory"] as const;
export type ConsentScope = (typeof consentScopes)[number];

export interface RemoteReport {
  readonly providers: readonly ProviderRow[];
  readonly consent: Readonly<Record<ConsentScope, boolean>>;
  /** The ids of providers with a sign-in in progress. */
  readonly pending: readonly string[];
  readonly protection: {
    readonly source: string;
    readonly isLocked: boolean;
    readonly message: string | undefined;
  };
}

export interface ProviderRow {
  readonly id: string;
  readonly displayName: string;
  readonly baseUrl: string;
  /** The class of the provider's address: `public`, `loopback` or `private`. */
  readonly addressClass: string;
  readonly isBuiltIn: boolean;
  readonly hasSignIn: boolean;
  readonly credential: {
    readonly kind: "none" | "key" | "oauth";
    /** The time when the credential was stored, in RFC 3339. */
    readonly setAt: string | undefined;
    readonly expiresAt: string | undefined;
    /**
     * The source of the credential's encryption key, if the credential cannot be read because that source is not
     * available; undefined if the credential can be read.
     */
    readonly lockedBy: string | undefined;
  };
  readonly status: string;
  /** The time of the last request to the provider, in RFC 3339. */
  readonly lastUsed: string | undefined;
}

/** Parses the result of the method State. Throws `assistant_unreachable` if it is invalid. */
export function parseRemoteReport(document: unknown): RemoteReport {
  const providers = getField(document, "providers");
  const consent = getField(document, "consent");
  if (!Array.isArray(providers) || typeof consent !== "object" || consent === null)
    throw unexpectedAnswer(undefined);
  const allowed = (scope: ConsentScope) => getField(consent, scope) === true;
  const protection = getField(document, "protection");
  return {
    providers: providers.map((provider: unknown) => parseProviderRow(provider)),
    consent: {
      prompt: allowed("prompt"),
      files: allowed("files"),
      mail: allowed("mail"),
      calendar: allowed("calendar"),
      screen: allowed("screen"),
      memory: allowed("memory"),
    },
    pending: toItems(getField(getField(document, "login"), "pending")).map((pending) =>
      getText(pending, "provider_id"),
    ),
    protection: {
      source: getText(protection, "source"),
      isLocked: getField(protection, "state") === "locked",
      message: getTextOrUndefined(protection, "message"),
    },
  };
}

/** Parses a list of model ids. Throws `assistant_unreachable` if it is not a list. */
export function parseModelIds(document: unknown): readonly string[] {
  if (!Array.isArray(document)) throw unexpectedAnswer(undefined);
  return filterTexts(document);
}

function parseProviderRow(provider: unknown): ProviderRow {
  const credential = getField(provider, "credential");
  const kind = getField(credential, "kind");
  const isPresent = getField(credential, "present") === true;
  return {
    id: getText(provider, "id"),
    displayName: getText(provider, "display_name"),
    baseUrl: getText(provider, "base_url"),
    addressClass: getText(provider, "address_class"),
    isBuiltIn: getField(provider, "builtin") === true,
    hasSignIn: getField(provider, "auth") === "sign_in",
    credential: {
      kind: isPresent ? (kind === "oauth" ? "oauth" : "key") : "none",
      setAt: getTextOrUndefined(credential, "set_at"),
      expiresAt: getTextOrUndefined(credential, "expires_at"),
      lockedBy: getTextOrUndefined(credential, "locked_by"),
    },
    status: getText(provider, "status"),
    lastUsed: getTextOrUndefined(provider, "last_used"),
  };
}
