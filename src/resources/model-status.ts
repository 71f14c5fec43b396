import type { Condition } from "./app-status.ts";

/**
 * absent: nothing of it is on disk yet. downloading. ready: whole and verified on disk, and not wanted in
 * memory, or no room there. starting: on its way into memory. running: answers. stopping: on its way out.
 * failed: Stalled, nothing is tried until something changes. deleting: has a deletion timestamp.
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

/** One file of a model, as its source lists it. */
export interface ModelFileStatus {
  /** Below the repository's root, or the last part of a URL. */
  readonly name: string;
  /** Null until somebody has told it. */
  readonly sizeBytes: number | null;
  /** Hexadecimal; null where the source names none and it is not downloaded yet. */
  readonly sha256: string | null;
}

/** What a GGUF file says of itself. */
export interface ModelFileFacts {
  readonly architecture: string;
  readonly name: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  /** Tokens that it was trained with. */
  readonly contextTokens: number;
  readonly kind: "chat" | "completion" | "embedding";
  /** What it takes in memory: with all that the engine would like to give it, and with the least of use. */
  readonly memoryBytes: { readonly wanted: number; readonly least: number };
}

/** What a source stands for: one model of certain bytes. */
export interface ResolvedModel {
  /** Stays the same for the same bytes: names the folder in which the files stand under their own names. */
  readonly key: string;
  readonly commit: string | null;
  /** As the file's name tells it: `Q4_K_M`; null where it does not. */
  readonly quantization: string | null;
  /** The first is the one to load; the parts of a split model in their order. */
  readonly files: readonly ResolvedFile[];
}

export interface ResolvedFile {
  /** Below the repository's root, or the last part of a URL or path. */
  readonly name: string;
  readonly sizeBytes: number | null;
  /** Of the hub's LFS object, or of the spec; null where nobody names one. */
  readonly sha256: string | null;
  /** git's SHA-1 of a file that is not in LFS; null otherwise. */
  readonly gitBlob: string | null;
  /** Strong entity tag that the source gave; null where it gave none. */
  readonly etag: string | null;
  readonly location:
    | { readonly type: "url"; readonly url: string }
    /** Stays where it is; nothing is copied. */
    | { readonly type: "local"; readonly path: string };
}

export interface ModelStatus {
  readonly phase: ModelPhase;
  readonly observedGeneration: number;
  /** Ready, Accepted, Downloaded, Loaded, Progressing, Stalled. */
  readonly conditions: readonly Condition[];
  /** The commit that the revision stood for; null for a URL, a file, and before it was asked. */
  readonly commit: string | null;
  /** The first is the one to load; more where the model is split. Empty before the source was asked. */
  readonly files: readonly ModelFileStatus[];
  /** Of all files; null where not known. */
  readonly sizeBytes: number | null;
  /** As last written down; the API tells the newest. */
  readonly downloadedBytes: number;
  readonly facts: ModelFileFacts | null;
  /** As it is in memory; null where it is not. */
  readonly loaded: {
    readonly memoryBytes: number | null;
    readonly contextTokens: number | null;
    readonly sequences: number | null;
    readonly since: string | null;
  } | null;
  readonly nextRetryAt: string | null;
  readonly memory: ModelReconcileState;
}

/** What the Model reconciler must still know after a crash. The API does not show it. */
export interface ModelReconcileState {
  /** Why nothing is tried until `inputs` (generation, credentials, file, a person's retry) changes. */
  readonly stalled: {
    readonly inputs: string;
    readonly reason: string;
    readonly message: string;
  } | null;
  /** What the source stood for, found out once for each `inputs` (source, revision, a person's request). */
  readonly pin: { readonly inputs: string; readonly model: ResolvedModel } | null;
  /** What it was before, which is in memory, or comes back there, until the new one is on the disk. */
  readonly replaced: ResolvedModel | null;
  /** The file that `status.facts` were read from. */
  readonly factsOf: string | null;
  /** The value of the retry annotation that has been obeyed. */
  readonly retriedAt: string | null;
  /** What is left of a person's wish to look anew: ask the source, then read and compare all. */
  readonly refresh: "resolve" | "verify" | null;
  /**
   * The step that failed, how often in a row, and when it is tried again (epoch milliseconds), or at once where
   * `inputs` changes.
   */
  readonly failure: {
    readonly inputs: string;
    readonly step: string;
    readonly count: number;
    readonly reason: string;
    readonly message: string;
    readonly retryAt: number;
    /** After a download that failed, the source has been asked anew: it may stand for something else now. */
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
