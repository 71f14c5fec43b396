import type { DataClass } from "../../data-class.ts";
import type { Provider, ProviderStatus } from "../port.ts";
import type { Revoked } from "../revocations.ts";

/** The egress's access to providers and their credentials. */
export interface ProviderDirectory {
  /** Undefined for an unknown provider. */
  find(id: string): Provider | undefined;
  /** Returns every provider that has a credential, or needs none because it is on this machine. */
  usable(): readonly Provider[];
  /**
   * Resolves to a current token for the Authorization header; undefined if there is no credential. Rejects with
   * `unauthorized` if a session has expired.
   */
  bearer(provider: Provider, signal: AbortSignal): Promise<string | undefined>;
  /** Called after each answer, and after each attempt without one. */
  noteStatus(id: string, status: ProviderStatus): void;
  /**
   * Calls back at once when the provider or its credential is removed, with the error for requests in progress. Returns
   * a function that unsubscribes.
   */
  onRevoked(id: string, callback: (error: Revoked) => void): () => void;
}

/** The data classes that the user allows to leave the machine. */
export interface ConsentRules {
  /** Returns those of `classes` that are not allowed. */
  missing(classes: readonly DataClass[]): readonly DataClass[];
  /** Calls back at once when one of these is no longer allowed. Returns a function that unsubscribes. */
  onRevoked(classes: readonly DataClass[], callback: () => void): () => void;
}
