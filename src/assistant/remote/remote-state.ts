import type { Consent } from "./consent.ts";
import type { Logins } from "./logins.ts";
import type { ProviderState, RemoteState } from "./port.ts";
import type { Providers } from "./providers.ts";
import type { Vault } from "./vault/port.ts";

interface RemoteStateDependencies {
  readonly providers: Providers;
  readonly vault: Pick<Vault, "describe" | "protection">;
  readonly consent: Pick<Consent, "isAllowed">;
  readonly logins: Pick<Logins, "pending">;
}

/** Builds the JSON document that the bus method State returns. The inputs contain no secret. */
export function buildRemoteState({
  providers,
  vault,
  consent,
  logins,
}: RemoteStateDependencies): RemoteState {
  const protection = vault.protection();
  const lockedBy = protection.state === "locked" ? protection.source : null;
  return {
    v: 1,
    providers: providers.all().map((provider): ProviderState => {
      const usedMs = providers.lastUsedMs(provider.id);
      const credential = vault.describe(provider.id);
      return {
        id: provider.id,
        display_name: provider.displayName,
        base_url: provider.baseUrl,
        builtin: provider.builtin,
        auth: provider.auth,
        credential: { ...credential, locked_by: credential.present ? lockedBy : null },
        address_class: provider.addressClass,
        status: providers.getStatus(provider.id),
        last_used: usedMs === undefined ? null : new Date(usedMs).toISOString(),
      };
    }),
    consent: {
      prompt: consent.isAllowed("prompt"),
      files: consent.isAllowed("files"),
      mail: consent.isAllowed("mail"),
      calendar: consent.isAllowed("calendar"),
      screen: consent.isAllowed("screen"),
      memory: consent.isAllowed("memory"),
    },
    login: { pending: logins.pending() },
    protection,
  };
}
