import type { AddressClass } from "../port.ts";

/** The rules for addresses of providers; `docs/remote.md` documents them. */
export interface AddressRules {
  /**
   * Parses, resolves and classifies the address that a user entered for a provider. Throws AssistantError
   * `invalid_request` (`param`: `base_url`) for text that is not an address, `forbidden` for an address that no
   * provider may have (link-local, metadata, Berth's own ports), `unreachable` if its name does not resolve.
   */
  check(baseUrl: string, signal: AbortSignal): Promise<CheckedAddress>;
}

export interface CheckedAddress {
  /** The URL in the form that is stored and displayed: normal form without a slash at the end. */
  readonly baseUrl: string;
  readonly addressClass: AddressClass;
}
