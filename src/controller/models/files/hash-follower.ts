import type { Digests } from "./file-digest.ts";
import type { HashJob } from "./hash-thread.ts";
import type { Hasher } from "./hasher.ts";
import type { PartialFile } from "./partial-file.ts";

/** Hashes a file while it comes, as far as there is no gap before the bytes. */
export class HashFollower {
  readonly #hasher: Hasher;
  readonly #wantsGitBlob: boolean;
  #job: HashJob | undefined;

  constructor(hasher: Hasher, wantsGitBlob: boolean) {
    this.#hasher = hasher;
    this.#wantsGitBlob = wantsGitBlob;
  }

  /** From the beginning, which may be there already. */
  follow(partial: PartialFile, sizeBytes: number): void {
    this.#job ??= this.#open(partial, sizeBytes);
    this.#job.advance(partial.prefixBytes);
  }

  advance(partial: PartialFile): void {
    this.#job?.advance(partial.prefixBytes);
  }

  /** All of it is there. */
  finish(
    partial: PartialFile,
    sizeBytes: number,
    onRead: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<Digests> {
    this.#job ??= this.#open(partial, sizeBytes);
    return this.#job.finish(sizeBytes, onRead, signal);
  }

  /** Forgets what was read; what comes may be another file. */
  cancel(): void {
    this.#job?.cancel();
    this.#job = undefined;
  }

  #open(partial: PartialFile, sizeBytes: number): HashJob {
    return this.#hasher.open(partial.path, sizeBytes, {
      gitBlobBytes: this.#wantsGitBlob ? sizeBytes : null,
    });
  }
}
