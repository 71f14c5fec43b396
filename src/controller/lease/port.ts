/** The process that may write to the engine for an instance, as that process describes itself in its lease record. */
export interface EngineWriter {
  readonly host: string;
  readonly dataDir: string;
  /** The start of the process in RFC 3339, by the clock of its host. */
  readonly since: string;
}

/** The permission to write to the engine. Of all processes of one instance, at most one has it. */
export interface WriterLease {
  /**
   * Resolves while this process may write to the engine. Throws `engine_leased` if another process has the
   * permission, or the engine's error if the engine does not answer.
   */
  ensure(signal: AbortSignal): Promise<void>;
  /** Renews the lease, or tries to get it, until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** The other process that may write to the engine, as last observed; null if none is known. */
  readonly otherWriter: EngineWriter | null;
  /** Calls the listener when `otherWriter` changes from or to null. Returns a function that removes the listener. */
  watch(listener: () => void): () => void;
}
