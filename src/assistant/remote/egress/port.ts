import type { DataClass } from "../../data-class.ts";
import type { Provider, ProviderStatus } from "../port.ts";
import type { Revoked } from "../revocations.ts";

/** The providers and their credentials, for the code that sends requests to providers. */
export interface ProviderDirectory {
  /** Returns a provider, or undefined if the id is unknown. */
  find(id: string): Provider | undefined;
  /** Returns every provider that can be used: it has a credential, or it needs none because it is not on the web. */
  usable(): readonly Provider[];
  /**
   * Resolves to a current token for the Authorization header; undefined if there is no credential. Rejects with
   * `unauthorized` if a session has expired.
   */
  bearer(provider: Provider, signal: AbortSignal): Promise<string | undefined>;
  /** Updates the provider's status. Called after each answer, and after each attempt without an answer. */
  noteStatus(id: string, status: ProviderStatus): void;
  /**
   * Registers a callback for the removal of the provider or of its credential. The callback receives the error for
   * requests in progress. Returns a function that unsubscribes.
   */
  onRevoked(id: string, callback: (error: Revoked) => void): () => void;
}

/** The data classes that the user allows to leave the machine. */
export interface ConsentRules {
  /** Returns the data classes in `classes` that the user does not allow. */
  missing(classes: readonly DataClass[]): readonly DataClass[];
  /**
   * Registers a callback that is called as soon as the user no longer allows one of the data classes in `classes`.
   * Returns a function that unsubscribes.
   */
  onRevoked(classes: readonly DataClass[], callback: () => void): () => void;
}
