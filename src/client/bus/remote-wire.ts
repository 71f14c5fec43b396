import { field, itemsOf, notTheCompanion, textField, textOrUndefined, textsOf } from "./json.ts";

/** The JSON of Remote1, as far as the command line shows it. Texts in it are the person's own, or a provider's. */

/** What can leave the machine, in the order in which it is shown. */
export const consentScopes = ["prompt", "files", "mail", "calendar", "screen", "memory"] as const;
export type ConsentScope = (typeof consentScopes)[number];

export interface RemoteReport {
  readonly providers: readonly ProviderRow[];
  readonly consent: Readonly<Record<ConsentScope, boolean>>;
  /** Ids of providers at which somebody is about to sign in. */
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
  /** public, loopback, private. */
  readonly addressClass: string;
  readonly isBuiltIn: boolean;
  readonly hasSignIn: boolean;
  readonly credential: {
    readonly kind: "none" | "key" | "oauth";
    /** RFC 3339. */
    readonly setAt: string | undefined;
    readonly expiresAt: string | undefined;
  };
  readonly status: string;
  /** RFC 3339. */
  readonly lastUsed: string | undefined;
}

/** Throws `assistant_unreachable` for what is no State. */
export function remoteReport(document: unknown): RemoteReport {
  const providers = field(document, "providers");
  const consent = field(document, "consent");
  if (!Array.isArray(providers) || typeof consent !== "object" || consent === null)
    throw notTheCompanion(undefined);
  const allowed = (scope: ConsentScope) => field(consent, scope) === true;
  const protection = field(document, "protection");
  return {
    providers: providers.map((provider: unknown) => providerRow(provider)),
    consent: {
      prompt: allowed("prompt"),
      files: allowed("files"),
      mail: allowed("mail"),
      calendar: allowed("calendar"),
      screen: allowed("screen"),
      memory: allowed("memory"),
    },
    pending: itemsOf(field(field(document, "login"), "pending")).map((pending) =>
      textField(pending, "provider_id"),
    ),
    protection: {
      source: textField(protection, "source"),
      isLocked: field(protection, "state") === "locked",
      message: textOrUndefined(protection, "message"),
    },
  };
}

/** Ids of models. Throws `assistant_unreachable` for what is no list. */
export function modelIds(document: unknown): readonly string[] {
  if (!Array.isArray(document)) throw notTheCompanion(undefined);
  return textsOf(document);
}

function providerRow(provider: unknown): ProviderRow {
  const credential = field(provider, "credential");
  const kind = field(credential, "kind");
  const isPresent = field(credential, "present") === true;
  return {
    id: textField(provider, "id"),
    displayName: textField(provider, "display_name"),
    baseUrl: textField(provider, "base_url"),
    addressClass: textField(provider, "address_class"),
    isBuiltIn: field(provider, "builtin") === true,
    hasSignIn: field(provider, "auth") === "sign_in",
    credential: {
      kind: isPresent ? (kind === "oauth" ? "oauth" : "key") : "none",
      setAt: textOrUndefined(credential, "set_at"),
      expiresAt: textOrUndefined(credential, "expires_at"),
    },
    status: textField(provider, "status"),
    lastUsed: textOrUndefined(provider, "last_used"),
  };
}
