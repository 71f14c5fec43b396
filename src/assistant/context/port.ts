import type { Caller } from "../caller.ts";

/**
 * Search over the indexed folders, and a memory for each app. Every search and every write is recorded in the ledger
 * before the store is used. With `ledger_unavailable` the call did not happen.
 */
export interface ContextService {
  /** Rejects with `invalid_request` if the limit is not 1 to 50, or the query is empty or longer than 4,096 bytes. */
  search(
    request: SearchRequest,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<readonly SearchHit[]>;
  indexState(): IndexState;
  readonly memory: Memory;
}

export interface SearchRequest {
  readonly query: string;
  readonly limit: number;
  /** Combines the lexical ranking with one by embeddings, if there is an embedding model. */
  readonly isHybrid: boolean;
  /** Undefined: all sources that the caller may see. An empty list and unknown scopes give no hits. */
  readonly scopes: readonly string[] | undefined;
}

/** Search returns an array of hits. */
export interface SearchHit {
  /** The name of the indexed source, such as `notes`. */
  readonly source: string;
  /** A label for provenance chains, such as `file:notes`. It is never trusted. */
  readonly provenance: string;
  /** About 300 characters of the passage, unchanged. */
  readonly snippet: string;
  /** A larger score is better. Scores can be compared within one answer only. */
  readonly score: number;
  /** The URI of the file, `file:///home/…`. */
  readonly uri: string;
  readonly title: string;
  /** The id of the passage, which is stable while its text does not change. */
  readonly id: string;
  /** The modification time of the file (RFC 3339). */
  readonly mtime: string;
  /** The rank in each ranking, from 1. Null: that ranking did not find the passage. */
  readonly parts: { readonly lexical: number | null; readonly cosine: number | null };
  readonly mode: "lexical" | "hybrid";
}

/** The JSON of IndexState. */
export interface IndexState {
  readonly v: 1;
  /** degraded: a source is not up to date, and its message says why. */
  readonly state: "empty" | "indexing" | "ready" | "degraded";
  readonly documents: number;
  readonly chunks: number;
  readonly sources: readonly ContextSourceState[];
}

export interface ContextSourceState {
  readonly name: string;
  readonly documents: number;
  /** The number of files that are not indexed: pictures, PDFs, archives, large files, files that seem secret. */
  readonly skipped: number;
  readonly state: "indexing" | "ready" | "degraded";
  /** The reason for `degraded`, and what to do about it. */
  readonly message: string | null;
}

/**
 * A key-value store for each app. A sandboxed caller may only name its own app (`forbidden`). Keys have 1 to 256 bytes and
 * values at most 64 KiB (`invalid_request`); an app has at most 10,000 keys and 16 MiB (`limits_exceeded`).
 */
export interface Memory {
  /** Rejects with `not_found` if there is no such key. */
  get(app: string, key: string, caller: Caller): Promise<string>;
  set(app: string, key: string, value: string, caller: Caller): Promise<void>;
  list(app: string, caller: Caller): Promise<ReadonlyMap<string, string>>;
  /** Once it resolves, no file contains a byte of any value. */
  wipe(app: string, caller: Caller): Promise<void>;
}

/** Turns texts into unit vectors. */
export interface ContextEmbedder {
  /** Vectors of embedders with different ids cannot be compared. */
  readonly id: string;
  readonly dimensions: number;
  /** Rejects while the model is not available. Searches are lexical then. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>;
}
