import type { Caller } from "../caller.ts";

/**
 * Context as its transports see it: search over what is indexed, and each app's own memory. Every search and
 * every write is in the ledger before the store is touched (`ledger_unavailable`: it did not happen).
 */
export interface ContextService {
  /** `invalid_request` where the limit is not 1 to 50 or the query is empty or longer than 4,096 bytes. */
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
  /** Undefined: everything that the caller may see. Empty or unknown ones give no hits. */
  readonly scopes: readonly string[] | undefined;
}

/** An array of these is what Search answers. */
export interface SearchHit {
  /** The name of the indexed source: `notes`. */
  readonly source: string;
  /** A label for provenance chains: `file:notes`. Never a trusted one. */
  readonly provenance: string;
  /** The passage, about 300 characters of the text as it stands. */
  readonly snippet: string;
  /** Comparable within one answer; larger is better. */
  readonly score: number;
  /** `file:///home/…`. */
  readonly uri: string;
  readonly title: string;
  /** Of the passage; stable while its text is. */
  readonly id: string;
  /** RFC 3339. */
  readonly mtime: string;
  /** Which ranking found it, from 1 in each; null: that one did not. */
  readonly parts: { readonly lexical: number | null; readonly cosine: number | null };
  readonly mode: "lexical" | "hybrid";
}

/** IndexState's JSON. */
export interface IndexState {
  readonly v: 1;
  /** degraded: something is not kept up to date; the source says what. */
  readonly state: "empty" | "indexing" | "ready" | "degraded";
  readonly documents: number;
  readonly chunks: number;
  readonly sources: readonly ContextSourceState[];
}

export interface ContextSourceState {
  readonly name: string;
  readonly documents: number;
  /** Files that are there and not indexed: pictures, PDFs, archives, what is too large, what looks secret. */
  readonly skipped: number;
  readonly state: "indexing" | "ready" | "degraded";
  /** Why it is degraded, and what to do. */
  readonly message: string | null;
}

/**
 * Key and value for each app; no call crosses apps. A sandboxed caller may only name itself (`forbidden`).
 * Keys are 1 to 256 bytes, values up to 64 KiB, 10,000 keys and 16 MiB an app (`invalid_request`,
 * `limits_exceeded`).
 */
export interface Memory {
  /** `not_found` where there is no such key. */
  get(app: string, key: string, caller: Caller): Promise<string>;
  set(app: string, key: string, value: string, caller: Caller): Promise<void>;
  list(app: string, caller: Caller): Promise<ReadonlyMap<string, string>>;
  /** When it resolves no byte of a value is left in any file. */
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
