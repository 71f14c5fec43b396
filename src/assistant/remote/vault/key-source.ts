import type { Protection } from "../port.ts";

/** A possible location of the master key. */
export interface KeySource {
  readonly name: Protection["source"];
  /** Reads the current state. Rejects only with the signal's reason; never prompts the user. */
  probe(signal: AbortSignal): Promise<FoundKey>;
  /**
   * Stores a key after `probe` has returned `empty`. The key is durable when this resolves. Rejects with KeyNotStoredError
   * if the source refuses it. Undefined for sources whose keys come from outside.
   */
  readonly store?: (key: Buffer, signal: AbortSignal) => Promise<void>;
}

/**
 * absent: this machine, or this session, has no such source. empty: the source is available and has no key. locked: the
 * source does not provide its key now, or provides something that is not a key.
 */
export type FoundKey =
  | { readonly state: "key"; readonly key: Buffer }
  | { readonly state: "absent" }
  | { readonly state: "empty" }
  | { readonly state: "locked"; readonly why: string };

/** `message` says why, and what to do; it contains no path. */
export class KeyNotStoredError extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.name = "KeyNotStoredError";
  }
}
