import type { IndexState, SearchHit } from "../port.ts";

/** What the index's thread is started with. */
export interface IndexWorkerData {
  readonly dir: string;
  readonly sources: readonly IndexedSource[];
  /** The embedding model, which the main thread calls. `awaited`: it will be announced. Undefined: there is none. */
  readonly embedder: VectorSpaceState | "awaited" | undefined;
  readonly timing: IndexTiming;
}

export interface IndexedSource {
  readonly name: string;
  readonly path: string;
  readonly scope: string;
}

/** All in milliseconds. */
export interface IndexTiming {
  /** After the last of a burst of changes. */
  readonly debounceMs: number;
  /** A burst that does not end is not waited for longer. */
  readonly debounceMaxMs: number;
  /** Everything is looked through: what no watch told is found. */
  readonly rescanMs: number;
  /** The same where watches are missing or the folder is not there. */
  readonly degradedRescanMs: number;
}

export type IndexWorkerRequest =
  | {
      readonly type: "search";
      readonly id: number;
      readonly query: string;
      readonly limit: number;
      readonly scopes: readonly string[] | undefined;
      readonly isHybrid: boolean;
      /** The query's embedding. Undefined if there is no embedder or it failed. */
      readonly vector: Float32Array | undefined;
    }
  /** Of a search that has not begun. */
  | { readonly type: "cancel"; readonly id: number }
  /** The answer to `wanted`; undefined: the embedder cannot be had. */
  | { readonly type: "vectors"; readonly vectors: readonly Float32Array[] | undefined }
  /** The one that was awaited. */
  | { readonly type: "embedder"; readonly embedder: VectorSpaceState }
  | { readonly type: "close" };

export type IndexWorkerMessage =
  | { readonly type: "hits"; readonly id: number; readonly hits: readonly SearchHit[] }
  /** `detail` is for the log alone: it may name paths. */
  | { readonly type: "failed"; readonly id: number; readonly detail: string }
  | { readonly type: "state"; readonly state: IndexState }
  | { readonly type: "wanted"; readonly texts: readonly string[] }
  | {
      readonly type: "log";
      readonly level: "info" | "warn" | "error";
      readonly message: string;
      readonly fields: Readonly<Record<string, unknown>>;
    }
  | { readonly type: "closed" };

/** The vector space of an embedder. */
export interface VectorSpaceState {
  /** Vectors of spaces with different ids cannot be compared. */
  readonly id: string;
  readonly dimensions: number;
}
