import type { Caller } from "../caller.ts";

/**
 * Search over the indexed folders, and a memory for each app. Every search and every write is recorded in the ledger
 * before it happens. A call that rejects with `ledger_unavailable` did not happen.
 */
export interface ContextService {
  /**
   * Searches the indexed folders. Rejects with `invalid_request` if the limit is not 1 to 50, or the query is empty
   * or longer than 4,096 bytes.
   */
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
  /**
   * True if the lexical ranking is to be combined with a ranking by embeddings. Without an embedding model the search
   * is lexical.
   */
  readonly isHybrid: boolean;
  /**
   * The scopes to search; undefined means all sources that the caller may see. An empty list and unknown scopes give
   * no hits.
   */
  readonly scopes: readonly string[] | undefined;
}

/** One element of the JSON array that the method Search returns. */
export interface SearchHit {
  /** The name of the indexed source, such as `notes`. */
  readonly source: string;
  /** A label for provenance chains, such as `file:notes`. It is never trusted. */
  readonly provenance: string;
  /** About 300 characters of the passage, unchanged. */
  readonly snippet: string;
  /** A larger score is better. Scores can be compared within one answer only. */
  readonly score: number;
  /**
   * A measure of how many of the query's words the passage and its title contain, from 0 to 1: the weight of these
   * words relative to the weight of the query's three rarest words. Unlike `score`, it can be compared between answers.
   */
  readonly coverage: number;
  /** The URI of the file, such as `file:///home/…`. */
  readonly uri: string;
  readonly title: string;
  /** The id of the passage. It stays the same while the text of the passage does not change. */
  readonly id: string;
  /** The modification time of the file (RFC 3339). */
  readonly mtime: string;
  /**
   * The rank of the passage in the lexical ranking and in the cosine ranking, counted from 1; null if that ranking did
   * not find the passage.
   */
  readonly parts: { readonly lexical: number | null; readonly cosine: number | null };
  readonly mode: "lexical" | "hybrid";
}

/** The JSON document that the method IndexState returns. */
export interface IndexState {
  readonly v: 1;
  /** The value `degraded` means that at least one source is not up to date; the source's message gives the reason. */
  readonly state: "empty" | "indexing" | "ready" | "degraded";
  readonly documents: number;
  readonly chunks: number;
  readonly sources: readonly ContextSourceState[];
  /** The state of the vectors of passages; null if no embedding model is configured. */
  readonly vectors: ContextVectorState | null;
}

export interface ContextVectorState {
  /** The id of the embedding model; null until the model is available for the first time. */
  readonly model: string | null;
  /** The number of passages that have a vector. Hybrid searches compare vectors if at least half of them have one. */
  readonly embedded: number;
  /** The number of all passages. */
  readonly passages: number;
  /** The reason why searches are lexical now, such as a model that did not answer in time; null if there is none. */
  readonly message: string | null;
}

export interface ContextSourceState {
  readonly name: string;
  readonly documents: number;
  /**
   * The number of files that are not indexed: pictures, PDFs, archives, large files, and files that seem to contain
   * secrets.
   */
  readonly skipped: number;
  readonly state: "indexing" | "ready" | "degraded";
  /** The reason for the state `degraded`, and what the user can do about it. */
  readonly message: string | null;
}

/**
 * A key-value store for each app. A sandboxed caller may only name its own app (`forbidden`). Keys have 1 to 256 bytes
 * and values at most 64 KiB (`invalid_request`); an app has at most 10,000 keys and 16 MiB (`limits_exceeded`).
 */
export interface Memory {
  /** Returns the value of a key. Rejects with `not_found` if the app has no such key. */
  get(app: string, key: string, caller: Caller): Promise<string>;
  set(app: string, key: string, value: string, caller: Caller): Promise<void>;
  list(app: string, caller: Caller): Promise<ReadonlyMap<string, string>>;
  /** Returns the apps that have values, in the order of their ids; to a sandboxed caller only its own app. */
  apps(caller: Caller): Promise<readonly AppMemoryUsage[]>;
  /** Deletes all values of an app. When this method resolves, no file contains a byte of any value. */
  wipe(app: string, caller: Caller): Promise<void>;
}

/** One element of the JSON array that the method MemoryApps returns. */
export interface AppMemoryUsage {
  readonly app: string;
  /** The number of keys. */
  readonly keys: number;
  /** The number of bytes of all keys and values. */
  readonly bytes: number;
}

/** Turns texts into unit vectors. */
export interface ContextEmbedder {
  /** Identifies the embedding model. Only vectors of embedders with equal ids can be compared. */
  readonly id: string;
  /** The name of the model for people; by default the id. */
  readonly name?: string;
  /** The length of the vectors; 0 while no model is available. */
  readonly dimensions: number;
  /** Embeds texts. Rejects while the model is not available; searches are lexical then. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>;
}
