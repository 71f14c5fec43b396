import type { DataClass } from "../../data-class.ts";
import type { Provider, ProviderStatus } from "../port.ts";
import type { Revoked } from "../revocations.ts";

/** What the egress asks before anything leaves, and tells afterwards. */
export interface ProviderDirectory {
  /** Undefined: there is no such provider. */
  find(id: string): Provider | undefined;
  /** Every provider that has a credential, or needs none because it is on this machine. */
  usable(): readonly Provider[];
  /** What goes into the Authorization header, fresh; undefined: there is none. `unauthorized` where a session has ended. */
  bearer(provider: Provider, signal: AbortSignal): Promise<string | undefined>;
  /** After each answer, and each that did not come. */
  noteStatus(id: string, status: ProviderStatus): void;
  /**
   * Calls back at once when its credential is cleared or it is removed, with what a request to it ends with then.
   * The function that it returns ends that.
   */
  onRevoked(id: string, callback: (error: Revoked) => void): () => void;
}

/** What a person allows to leave. */
export interface ConsentRules {
  /** Of these, those that are not allowed. */
  missing(classes: readonly DataClass[]): readonly DataClass[];
  /** Calls back at once when one of these is allowed no more. The function that it returns ends that. */
  onRevoked(classes: readonly DataClass[], callback: () => void): () => void;
}
