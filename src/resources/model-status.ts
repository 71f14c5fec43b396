import type { Condition } from "./app-status.ts";

/**
 * absent: nothing is on disk yet. downloading: bytes are being fetched. ready: the files are complete and verified on
 * disk, but the model is not loaded, because its spec does not request it or memory is short. starting: being loaded.
 * running: answers requests. stopping: being unloaded. failed: stalled until an input changes, or a request to its
 * source failed and is repeated at nextRetryAt. deleting: has a deletion timestamp.
 */
export const modelPhases = [
  "absent",
  "downloading",
  "ready",
  "starting",
  "running",
  "stopping",
  "failed",
  "deleting",
] as const;
export type ModelPhase = (typeof modelPhases)[number];

/** A file of a model, as listed by its source. */
export interface ModelFileStatus {
  /** Path in the repository, or the last part of a URL. */
  readonly name: string;
  /** The size of the file; null until it is known. */
  readonly sizeBytes: number | null;
  /** The digest in hexadecimal; null if the source does not report it and the file is not downloaded yet. */
  readonly sha256: string | null;
}

/** Metadata of a GGUF file. */
export interface ModelFileFacts {
  readonly architecture: string;
  readonly name: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  /** The context length with which the model was trained, in tokens. */
  readonly contextTokens: number;
  readonly kind: "chat" | "completion" | "embedding";
  /**
   * The memory that the model needs: `wanted` with the settings that the engine prefers, `least` with the smallest
   * usable settings.
   */
  readonly memoryBytes: { readonly wanted: number; readonly least: number };
}

/** The result of resolving a source: a model with fixed content. */
export interface ResolvedModel {
  /** Identifies the content. It is the name of the folder that contains the files under their own names. */
  readonly key: string;
  readonly commit: string | null;
  /** Quantization in the file name, such as `Q4_K_M`; null if there is none. */
  readonly quantization: string | null;
  /** The files of the model. The first one is loaded; the parts of a split model are in order. */
  readonly files: readonly ResolvedFile[];
}

export interface ResolvedFile {
  /** Path in the repository, or the last part of a URL or path. */
  readonly name: string;
  readonly sizeBytes: number | null;
  /** The digest of the LFS object on the hub, or the one in the spec; null if neither has one. */
  readonly sha256: string | null;
  /** Git blob id (SHA-1) of a file that is not in LFS; null otherwise. */
  readonly gitBlob: string | null;
  /** Strong entity tag of the source; null if it sent none. */
  readonly etag: string | null;
  readonly location:
    | { readonly type: "url"; readonly url: string }
    /** A file of this machine, which is used in place instead of being copied. */
    | { readonly type: "local"; readonly path: string };
}

export interface ModelStatus {
  readonly phase: ModelPhase;
  readonly observedGeneration: number;
  /** The conditions, of the types Ready, Accepted, Downloaded, Loaded, Progressing and Stalled. */
  readonly conditions: readonly Condition[];
  /** The commit of the revision; null for a URL, for a file, and before it was resolved. */
  readonly commit: string | null;
  /** The files of the model. The first one is loaded; a split model has more. Empty before the source was resolved. */
  readonly files: readonly ModelFileStatus[];
  /** Total size of all files; null if unknown. */
  readonly sizeBytes: number | null;
  /** The number of downloaded bytes at the last write of the status. The API shows the current number instead. */
  readonly downloadedBytes: number;
  readonly facts: ModelFileFacts | null;
  /** Settings of the loaded model; null if it is not loaded. */
  readonly loaded: {
    readonly memoryBytes: number | null;
    readonly contextTokens: number | null;
    readonly sequences: number | null;
    readonly since: string | null;
  } | null;
  readonly nextRetryAt: string | null;
  readonly memory: ModelReconcileState;
}

/** State of the Model reconciler that must survive a crash. The API does not show it. */
export interface ModelReconcileState {
  /**
   * The reason why Berth does not try again until `inputs` (the generation, credentials, the file or a retry) changes.
   */
  readonly stalled: {
    readonly inputs: string;
    readonly reason: string;
    readonly message: string;
  } | null;
  /** The resolved source. A source is resolved once for each value of `inputs` (source, revision, explicit request). */
  readonly pin: { readonly inputs: string; readonly model: ResolvedModel } | null;
  /** The previous model, which stays in use until the new one is on disk. */
  readonly replaced: ResolvedModel | null;
  /** The file from which `status.facts` were read. */
  readonly factsOf: string | null;
  /** The last handled value of the retry annotation. */
  readonly retriedAt: string | null;
  /** The next step of a refresh that a user requested: resolve the source, then verify all files. */
  readonly refresh: "resolve" | "verify" | null;
  /**
   * The failed step, the number of failures in a row, and the time of the retry (epoch milliseconds). If `inputs`
   * changes, the step is retried immediately.
   */
  readonly failure: {
    readonly inputs: string;
    readonly step: string;
    readonly count: number;
    readonly reason: string;
    readonly message: string;
    readonly retryAt: number;
    /**
     * True if Berth has resolved the source again after the failed download, with the same files as result. Berth then
     * retries the download without resolving the source once more.
     */
    readonly isAsked?: boolean;
  } | null;
}

export const emptyModelReconcileState: ModelReconcileState = {
  stalled: null,
  pin: null,
  replaced: null,
  factsOf: null,
  retriedAt: null,
  refresh: null,
  failure: null,
};
