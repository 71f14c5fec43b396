import type { Labels } from "./port.ts";

/**
 * Stores the records of the engine lease (see `EngineLease`) on the engine. Each renewal or takeover of the lease
 * begins a term, which has a number and a record. The records outlive restarts of the engine, and its routine clean-up
 * (`docker system prune`) does not remove them.
 */
export interface LeaseRuntime {
  /**
   * Creates the lease record of a term. The call is atomic: if several processes call it for the same term, the record
   * keeps the labels of the first one, and all calls succeed; `listLeases` returns the labels. Throws `disk_full`.
   */
  createLease(instance: string, term: number, labels: Labels, signal: AbortSignal): Promise<void>;
  /**
   * Returns the records of the lease. A record that exists during the whole call is among them. The order is undefined.
   */
  listLeases(instance: string, signal: AbortSignal): Promise<readonly ObservedLease[]>;
  /** Removes the record of a term of the engine lease; does nothing if the record is missing. */
  removeLease(instance: string, term: number, signal: AbortSignal): Promise<void>;
}

export interface ObservedLease {
  readonly term: number;
  readonly labels: Labels;
}
