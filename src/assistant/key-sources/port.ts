export type KeySourceName = "systemd-credential" | "secret-service" | "file";

/** A place where a master key may be stored. */
export interface KeySource {
  readonly name: KeySourceName;
  /** Reads the key from this source, without prompting the user. Rejects only with the signal's reason. */
  probe(signal: AbortSignal): Promise<FoundKey>;
  /**
   * Stores a key after `probe` has returned `empty`. The key is durable when this resolves. Rejects with
   * KeyNotStoredError if the source refuses it. A source in which Berth cannot store keys does not have this method.
   */
  readonly store?: (key: Buffer, signal: AbortSignal) => Promise<void>;
}

/**
 * The state `absent` means that this machine or this session has no such source, `empty` that the source is available
 * and has no key, and `locked` that the source does not provide its key now, or provides something that is not a key.
 */
export type FoundKey =
  | { readonly state: "key"; readonly key: Buffer }
  | { readonly state: "absent" }
  | { readonly state: "empty" }
  | { readonly state: "locked"; readonly why: string };

/**
 * Thrown if the source refuses to store a key. `message` contains the reason and what the user can do; it contains no
 * path.
 */
export class KeyNotStoredError extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.name = "KeyNotStoredError";
  }
}
