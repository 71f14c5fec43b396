import type { AddressClass } from "../port.ts";

/** Which addresses a provider may have; `docs/remote.md` tells the rules. */
export interface AddressRules {
  /**
   * What a person gave as a provider's address, parsed, resolved and classified. Throws AssistantError
   * `invalid_request` (`param`: `base_url`) for what is no address, `forbidden` for one that no provider may
   * have (link-local, metadata, Berth's own ports), `unreachable` where its name does not resolve.
   */
  check(baseUrl: string, signal: AbortSignal): Promise<CheckedAddress>;
}

export interface CheckedAddress {
  /** As it is kept and shown: normal form, no slash at its end. */
  readonly baseUrl: string;
  readonly addressClass: AddressClass;
}
