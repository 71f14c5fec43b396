import type { Protection } from "../port.ts";

/** Somewhere the master key can be. */
export interface KeySource {
  readonly name: Protection["source"];
  /** What is there now. Never rejects but with the signal's reason; never asks the person for anything. */
  probe(signal: AbortSignal): Promise<FoundKey>;
  /**
   * Keeps a key where `look` has found `empty`. It is lasting when this resolves. Rejects with KeyNotKeptError
   * where the source does not take it. Undefined: this source's keys are made by somebody else.
   */
  readonly store?: (key: Buffer, signal: AbortSignal) => Promise<void>;
}

/**
 * absent: this machine, or this session, has no such source. empty: it is there and has no key.
 * locked: it is there, and does not give its key now, or gives something that is none.
 */
export type FoundKey =
  | { readonly state: "key"; readonly key: Buffer }
  | { readonly state: "absent" }
  | { readonly state: "empty" }
  | { readonly state: "locked"; readonly why: string };

/** `message` says why, and what to do; it names no path. */
export class KeyNotStoredError extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.name = "KeyNotKeptError";
  }
}
