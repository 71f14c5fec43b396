import type { IndexState, SearchHit } from "../port.ts";

/** The data with which the index's thread is started. */
export interface IndexWorkerData {
  readonly dir: string;
  readonly sources: readonly IndexedSource[];
  /**
   * The embedding model, which the main thread calls. The value `awaited` means that the main thread will announce the
   * model later; undefined means that there is no model.
   */
  readonly embedder: VectorSpaceState | "awaited" | undefined;
  readonly timing: IndexTiming;
}

export interface IndexedSource {
  readonly name: string;
  readonly path: string;
  readonly scope: string;
}

/** Delays and intervals of indexing, all in milliseconds. */
export interface IndexTiming {
  /** The time without file changes after which a burst of changes is indexed. */
  readonly debounceMs: number;
  /** The longest time from the first change of a burst until the burst is indexed. */
  readonly debounceMaxMs: number;
  /** The interval of full scans, which find changes that no file watch reported. */
  readonly rescanMs: number;
  /** The interval of full scans while file watches are missing or the folder does not exist. */
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
      /** The query's embedding; undefined if there is no embedder or it failed. */
      readonly vector: Float32Array | undefined;
    }
  /** Cancels a search that has not begun. */
  | { readonly type: "cancel"; readonly id: number }
  /** The answer to the message `wanted`. The vectors are undefined if the embedder is not available. */
  | { readonly type: "vectors"; readonly vectors: readonly Float32Array[] | undefined }
  /** Announces the embedding model; sent only if `IndexWorkerData.embedder` was `awaited`. */
  | { readonly type: "embedder"; readonly embedder: VectorSpaceState }
  | { readonly type: "close" };

export type IndexWorkerMessage =
  | { readonly type: "hits"; readonly id: number; readonly hits: readonly SearchHit[] }
  /** `detail` is for the log only, because it may name paths. */
  | { readonly type: "failed"; readonly id: number; readonly detail: string }
  | {
      readonly type: "state";
      readonly state: Omit<IndexState, "vectors">;
      /** The number of passages that have a vector of the current embedder. */
      readonly embedded: number;
    }
  | { readonly type: "wanted"; readonly texts: readonly string[] }
  | {
      readonly type: "log";
      readonly level: "info" | "warn" | "error";
      readonly message: string;
      readonly fields: Readonly<Record<string, unknown>>;
    }
  | { readonly type: "closed" };

/** The state of a vector space, which belongs to one embedder. */
export interface VectorSpaceState {
  /** The id of the vector space. Only vectors from spaces with the same id can be compared. */
  readonly id: string;
  readonly dimensions: number;
}
