import type { ResolvedModel } from "../hub/port.ts";

/**
 * Models on disk. Files are kept once for each content, under their sha256; each model has a folder with
 * its files under their own names that lead there. What is half there is kept, and gone on with.
 */
export interface ModelFiles {
  /** Whole and verified, and not changed since; undefined otherwise. Reads no contents. */
  find(model: ResolvedModel): Promise<StoredModel | undefined>;
  /** Bytes of it that are on disk, whole or in parts, without reading them. */
  storedBytes(model: ResolvedModel): Promise<number>;
  /**
   * Brings every file onto the disk, and verifies it. Two models of one content download it once.
   * Errors are BerthErrors: `hub_unreachable`, `hub_denied`, `hub_not_found`, `digest_mismatch` (what came is
   * not what was promised; it is thrown away), `disk_full` (with how much is missing; before the first byte
   * where the sizes are known). What has come stays for the next try, also after a kill.
   */
  download(
    model: ResolvedModel,
    options: {
      readonly token: string | undefined;
      readonly onProgress: (progress: DownloadProgress) => void;
    },
    signal: AbortSignal,
  ): Promise<StoredModel>;
  /** Reads everything and compares the digests. What is damaged is taken out of use; `digest_mismatch` then. */
  verify(model: ResolvedModel, signal: AbortSignal): Promise<StoredModel>;
  /** Takes the model's own folder away, and the contents that no model of `keep` has; nothing where `key` is one of them. */
  remove(key: string, keep: readonly string[]): Promise<void>;
  /** Removes what no model of `keep` (keys) has, the longest unused first, until all is within the budget. */
  collect(keep: readonly string[]): Promise<readonly CollectedFile[]>;
}

export interface StoredModel {
  /** Absolute: of the file to load. */
  readonly path: string;
  readonly files: readonly {
    readonly name: string;
    readonly sizeBytes: number;
    /** Null for a local file that nobody gave a digest for. */
    readonly sha256: string | null;
  }[];
}

export interface DownloadProgress {
  /** downloading: bytes come. verifying: they are read once more. */
  readonly step: "downloading" | "verifying";
  readonly doneBytes: number;
  /** Null where the source does not tell. */
  readonly totalBytes: number | null;
}

export interface CollectedFile {
  readonly sha256: string;
  readonly sizeBytes: number;
}
