import type { ResolvedModel } from "../hub/port.ts";

/**
 * Models on the disk. Each file is stored once under its sha256. Each model has a folder with links under the model's
 * own file names. Incomplete downloads are kept and resumed.
 */
export interface ModelFiles {
  /** Returns the model if it is complete, verified and unchanged; undefined otherwise. It does not read the files. */
  find(model: ResolvedModel): Promise<StoredModel | undefined>;
  /** Returns the number of stored bytes, including those of incomplete files, without reading the files. */
  storedBytes(model: ResolvedModel): Promise<number>;
  /**
   * Downloads and verifies all files. Two models with the same content download it once. Throws BerthErrors:
   * `hub_unreachable`, `hub_denied`, `hub_not_found`, `digest_mismatch` (the downloaded file is not the expected
   * one and is discarded), `disk_full` (with the missing bytes; before the first byte if the sizes are known).
   * Downloaded bytes are kept for the next attempt, also after a kill.
   */
  download(
    model: ResolvedModel,
    options: {
      readonly token: string | undefined;
      readonly onProgress: (progress: DownloadProgress) => void;
    },
    signal: AbortSignal,
  ): Promise<StoredModel>;
  /** Reads all files and compares their digests. Removes damaged files and throws `digest_mismatch`. */
  verify(model: ResolvedModel, signal: AbortSignal): Promise<StoredModel>;
  /**
   * Removes the model's folder, and the files that no model in `keep` uses. Does nothing if `keep` includes `key`.
   */
  remove(key: string, keep: readonly string[]): Promise<void>;
  /**
   * Removes files that no model in `keep` (a list of keys) uses, in order of last use, until the remaining files fit
   * into the budget.
   */
  collect(keep: readonly string[]): Promise<readonly CollectedFile[]>;
}

export interface StoredModel {
  /** Absolute path of the file to load. */
  readonly path: string;
  readonly files: readonly {
    readonly name: string;
    readonly sizeBytes: number;
    /** The digest of the file; null for a local file without an expected digest. */
    readonly sha256: string | null;
  }[];
}

export interface DownloadProgress {
  /** `verifying` means that the files are being hashed. */
  readonly step: "downloading" | "verifying";
  readonly doneBytes: number;
  /** The total size; null if the source does not report it. */
  readonly totalBytes: number | null;
}

export interface CollectedFile {
  readonly sha256: string;
  readonly sizeBytes: number;
}
