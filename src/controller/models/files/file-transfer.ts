import { createHash } from "node:crypto";
import { type Clock, delay } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Semaphore } from "../../../base/mutex.ts";
import type { ResolvedFile } from "../hub/port.ts";
import type { BandwidthLimiter } from "./bandwidth-limiter.ts";
import { DownloadBackoff, type RetryLimits } from "./download-backoff.ts";
import { type ConnectionRun, runConnections } from "./download-connections.ts";
import { sizeMismatchError, sourceUnreachableError, toDiskError } from "./download-errors.ts";
import type { DownloadSource } from "./download-source.ts";
import type { Digests } from "./file-digest.ts";
import { FileHash } from "./file-hash.ts";
import { Part, PartQueue } from "./part-queue.ts";
import { PartialFile, type PartialOrigin } from "./partial-file.ts";
import { type AcceptedResponse, requestRange } from "./range-request.ts";
import { type ByteRange, findMissingRanges } from "./ranges.ts";
import { receiveBody } from "./receive-body.ts";
import { RequestGuard } from "./request-guard.ts";
import { resolveResumeState } from "./resume-state.ts";
import { badRangeError, noRangesError, RetryableError } from "./retryable-error.ts";

/**
 * The maximum number of times that the file may change at its source during one download; one more fails the download.
 * A source that changes more often probably has different files on its servers.
 */
const CHANGES_MAX = 3;
/** After this many contradictory responses, the file is downloaded again over a single connection. */
const BAD_RANGES_MAX = 3;
const WHOLE_FILE_SENT = "a part was requested, but the server sends the whole file";
/** The interval at which an idle connection checks if it can take over a part of the file from a slow connection. */
const IDLE_MS = 250;

/** The dependencies that all transfers share. */
export interface TransferDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bandwidth: BandwidthLimiter;
  readonly writes: Semaphore;
  readonly partsMax: number;
  readonly limits: RetryLimits;
}

interface FileTransferOptions {
  readonly file: ResolvedFile;
  readonly url: string;
  readonly source: DownloadSource;
  /** The folder of the partial file. */
  readonly dir: string;
  readonly key: string;
  /** Checks the free disk space, before the first byte is written and again when the file's size is known. */
  readonly checkSpace: () => Promise<void>;
  readonly dependencies: TransferDependencies;
}

export interface TransferResult {
  readonly digests: Digests;
  readonly sizeBytes: number;
}

/**
 * The download of one file in parts over several connections. If the server does not send parts correctly, the file
 * is downloaded as one stream. If the file changes at its source, the download starts again, in parts.
 */
export class FileTransfer {
  readonly #options: FileTransferOptions;
  readonly #dependencies: TransferDependencies;
  readonly #sourceDigest: string;
  readonly #backoff: DownloadBackoff;
  readonly #keys: Set<string>;
  #mode: "parts" | "stream" = "parts";
  #partial: PartialFile | undefined;
  #parts: PartQueue | undefined;
  #hash: FileHash | undefined;
  #sizeBytes: number | null;
  #validator: string | null = null;
  #changes = 0;
  #badRanges = 0;
  #verifiedBytes: number | undefined;

  constructor(options: FileTransferOptions) {
    const { file, url, key, dependencies } = options;
    const { clock, limits, partsMax } = dependencies;
    this.#options = options;
    this.#dependencies = dependencies;
    this.#sourceDigest = createHash("sha256").update(url).digest("hex");
    this.#keys = new Set([key]);
    this.#sizeBytes = file.sizeBytes;
    this.#backoff = new DownloadBackoff(clock, limits, partsMax);
  }

  get totalBytes(): number | null {
    return this.#sizeBytes;
  }

  get doneBytes(): number {
    return (this.#partial?.writtenBytes ?? 0) + (this.#parts?.bufferedBytes ?? 0);
  }

  /** The disk space that the rest of the file needs; 0 while its size is unknown. */
  get missingBytes(): number {
    return Math.max(0, (this.#sizeBytes ?? 0) - (this.#partial?.writtenBytes ?? 0));
  }

  /** The number of bytes that were hashed so far after the download; undefined until all bytes were downloaded. */
  get verifiedBytes(): number | undefined {
    return this.#verifiedBytes;
  }

  /** Adds the key of another model that waits for this file. */
  addKey(key: string): void {
    this.#keys.add(key);
    this.#saveOrigin();
  }

  /** Downloads, flushes and hashes the file. When it fails or is aborted, the received bytes are kept. */
  async run(signal: AbortSignal): Promise<TransferResult> {
    const { dir, checkSpace } = this.#options;
    try {
      const partial = await PartialFile.open(dir, this.#getOrigin(), this.#dependencies.writes);
      this.#partial = partial;
      try {
        await this.#resume(partial);
        await checkSpace();
        await this.#transferAll(partial, signal);
        const [result] = await Promise.all([
          this.#finishHashing(partial, signal),
          partial.syncData(),
        ]);
        return result;
      } catch (error) {
        // This flush may fail for the same reason as a write, such as a full disk. The first error is thrown.
        await partial.flush().catch(() => {});
        throw error;
      } finally {
        this.#hash?.cancel();
        await partial.close();
      }
    } catch (error) {
      throw toDiskError(error);
    }
  }

  get #hasDigest(): boolean {
    const { sha256, gitBlob } = this.#options.file;
    return sha256 !== null || gitBlob !== null;
  }

  #getOrigin(): PartialOrigin {
    return {
      source: this.#sourceDigest,
      validator: this.#validator,
      sizeBytes: this.#sizeBytes,
      keys: [...this.#keys],
    };
  }

  #saveOrigin(): void {
    this.#partial?.setOrigin(this.#getOrigin());
  }

  /** Keeps the bytes of an earlier attempt if they certainly belong to the same file. Otherwise discards them. */
  async #resume(partial: PartialFile): Promise<void> {
    for (const key of partial.origin.keys) this.#keys.add(key);
    const state = resolveResumeState(partial.origin, partial.written, {
      source: this.#sourceDigest,
      hasDigest: this.#hasDigest,
      sizeBytes: this.#sizeBytes,
    });
    if (!state) {
      await this.#discard(partial);
      return;
    }
    this.#sizeBytes = state.sizeBytes;
    this.#validator = state.validator;
    this.#saveOrigin();
  }

  async #discard(partial: PartialFile): Promise<void> {
    this.#hash?.cancel();
    this.#hash = undefined;
    await partial.reset(this.#getOrigin());
  }

  async #transferAll(partial: PartialFile, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        if (this.#mode === "parts") await this.#transferParts(partial, signal);
        else await this.#withRetries(signal, () => this.#transferStream(partial, signal));
        return;
      } catch (error) {
        if (!(error instanceof RetryableError)) throw error;
        if (error.kind === "changed") await this.#restart(partial, error.sizeBytes);
        else {
          this.#dependencies.logger.info(
            { host: this.#options.source.host, reason: error.message },
            "the server does not send parts of a file; it is downloaded in one stream",
          );
          this.#mode = "stream";
        }
      } finally {
        this.#parts = undefined;
      }
    }
  }

  async #restart(partial: PartialFile, newSizeBytes: number | null): Promise<void> {
    const { file, source } = this.#options;
    if (file.sizeBytes !== null && newSizeBytes !== null && newSizeBytes !== file.sizeBytes)
      throw sizeMismatchError(file.name, file.sizeBytes, newSizeBytes);
    this.#changes += 1;
    if (this.#changes > CHANGES_MAX)
      throw sourceUnreachableError(
        `${file.name} changed ${this.#changes} times at ${source.host} during the download`,
      );
    this.#dependencies.logger.warn(
      { host: source.host },
      "a file changed at its source during the download, which starts again",
    );
    this.#mode = "parts";
    this.#validator = null;
    this.#sizeBytes = file.sizeBytes;
    await this.#discard(partial);
  }

  /** Requests the size from the server. Without the size, the file cannot be divided into parts. */
  async #fetchSize(signal: AbortSignal): Promise<number> {
    return this.#withRetries(signal, async () => {
      using guard = new RequestGuard(this.#dependencies, signal);
      const accepted = await this.#request({ start: 0, end: 1 }, guard, signal);
      accepted.response.destroy();
      if (accepted.type === "whole") throw noRangesError(WHOLE_FILE_SENT);
      return accepted.sizeBytes;
    });
  }

  async #transferParts(partial: PartialFile, signal: AbortSignal): Promise<void> {
    const { partsMax } = this.#dependencies;
    if (this.#sizeBytes === null) {
      this.#sizeBytes = await this.#fetchSize(signal);
      this.#saveOrigin();
      await this.#options.checkSpace();
    }
    const parts = new PartQueue(findMissingRanges(partial.written, this.#sizeBytes), partsMax);
    this.#parts = parts;
    this.#startHashing(partial, this.#sizeBytes);
    const run: ConnectionRun = (index, ended, onPart) =>
      this.#runConnection(partial, parts, index, ended, onPart);
    await runConnections(parts, partsMax, run, signal);
  }

  /** Downloads parts until no part is left, or until an overloaded server requires fewer connections. */
  async #runConnection(
    partial: PartialFile,
    parts: PartQueue,
    index: number,
    signal: AbortSignal,
    onPart: () => void,
  ): Promise<void> {
    const { clock } = this.#dependencies;
    while (!parts.isDone && index < this.#backoff.connectionsMax) {
      await this.#backoff.wait(signal);
      const part = parts.take(clock.now());
      if (!part) {
        await delay(clock, IDLE_MS, signal);
        continue;
      }
      try {
        await this.#transferPart(partial, part, signal, onPart);
      } catch (error) {
        this.#recordFailure(error);
      } finally {
        parts.release(part);
      }
    }
  }

  async #transferPart(
    partial: PartialFile,
    part: Part,
    signal: AbortSignal,
    onPart: () => void,
  ): Promise<void> {
    using guard = new RequestGuard(this.#dependencies, signal);
    const accepted = await this.#request({ start: part.received, end: part.end }, guard, signal);
    const { response, host, validator } = accepted;
    if (accepted.type === "whole") {
      response.destroy();
      // If the server has sent a part before, it supports ranges, so this response is an error that is retried.
      throw partial.writtenBytes === 0
        ? noRangesError(WHOLE_FILE_SENT)
        : badRangeError(host, WHOLE_FILE_SENT);
    }
    if (!this.#hasDigest && validator === null) {
      response.destroy();
      throw noRangesError("the file has neither a digest nor a strong entity tag");
    }
    if (validator !== null && validator !== this.#validator) {
      this.#validator = validator;
      this.#saveOrigin();
    }
    onPart();
    await this.#receive(partial, accepted, part, accepted.end, guard, signal);
  }

  /** Downloads the whole file from its first byte; discards the bytes that are on the disk. */
  async #transferStream(partial: PartialFile, signal: AbortSignal): Promise<void> {
    using guard = new RequestGuard(this.#dependencies, signal);
    const accepted = await this.#request(undefined, guard, signal);
    const { sizeBytes } = accepted;
    const isSizeNew = this.#sizeBytes === null && sizeBytes !== null;
    this.#validator = accepted.validator;
    this.#sizeBytes = sizeBytes;
    try {
      await this.#discard(partial);
      if (isSizeNew) await this.#options.checkSpace();
      if (sizeBytes !== null) this.#startHashing(partial, sizeBytes);
      const range = { start: 0, end: sizeBytes ?? Infinity };
      const part = new Part(range, this.#dependencies.clock.now());
      await this.#receive(partial, accepted, part, sizeBytes, guard, signal);
      this.#sizeBytes = part.written;
    } catch (error) {
      accepted.response.destroy();
      if (!(error instanceof RetryableError) || error.kind !== "bad-range") throw error;
      throw sizeMismatchError(this.#options.file.name, sizeBytes ?? 0, (sizeBytes ?? 0) + 1);
    }
  }

  #request(
    range: ByteRange | undefined,
    guard: RequestGuard,
    signal: AbortSignal,
  ): Promise<AcceptedResponse> {
    const { source, file } = this.#options;
    const expected = { range, sizeBytes: this.#sizeBytes, validator: this.#validator };
    return requestRange({
      ...this.#dependencies,
      source,
      name: file.name,
      expected,
      guard,
      signal,
    });
  }

  #receive(
    partial: PartialFile,
    accepted: AcceptedResponse,
    part: Part,
    end: number | null,
    guard: RequestGuard,
    signal: AbortSignal,
  ): Promise<void> {
    const write = async (buffers: readonly Buffer[], position: number) => {
      await partial.write(buffers, position, this.#dependencies.clock.now());
      this.#hash?.advance(partial.prefixBytes);
    };
    return receiveBody(accepted, part, end, { ...this.#dependencies, guard, write }, signal);
  }

  /** Hashes the bytes that are on the disk; the rest follows during the download. */
  #startHashing({ path, prefixBytes }: PartialFile, sizeBytes: number): FileHash {
    const withGitBlob = this.#options.file.gitBlob !== null;
    this.#hash ??= new FileHash({ path, sizeBytes, withGitBlob });
    this.#hash.advance(prefixBytes);
    return this.#hash;
  }

  async #finishHashing(partial: PartialFile, signal: AbortSignal): Promise<TransferResult> {
    const sizeBytes = this.#sizeBytes ?? partial.prefixBytes;
    this.#verifiedBytes = 0;
    const onRead = (bytes: number) => {
      this.#verifiedBytes = bytes;
    };
    const digests = await this.#startHashing(partial, sizeBytes).finish(onRead, signal);
    return { digests, sizeBytes };
  }

  /** Throws the error after too many failures in a row, or if no retry can help. Otherwise delays the next request. */
  #recordFailure(error: unknown): void {
    if (!(error instanceof RetryableError)) throw error;
    if (error.kind === "changed" || error.kind === "no-ranges") throw error;
    this.#dependencies.logger.debug({ reason: error.message }, "a part of a download failed");
    if (error.kind === "bad-range" && this.#mode === "parts") {
      this.#badRanges += 1;
      if (this.#badRanges >= BAD_RANGES_MAX) throw noRangesError(error.message);
    }
    this.#backoff.recordFailure(error, this.doneBytes);
  }

  async #withRetries<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (;;) {
      await this.#backoff.wait(signal);
      try {
        return await work();
      } catch (error) {
        this.#recordFailure(error);
      }
    }
  }
}
