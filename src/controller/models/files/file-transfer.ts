import { createHash } from "node:crypto";
import { delay } from "../../../base/clock.ts";
import type { ResolvedFile } from "../hub/port.ts";
import { DownloadBackoff } from "./download-backoff.ts";
import { runConnections } from "./download-connections.ts";
import { sizeMismatchError, sourceUnreachableError, toDiskError } from "./download-errors.ts";
import type { DownloadSource } from "./download-source.ts";
import type { Digests } from "./file-digest.ts";
import { HashFollower } from "./hash-follower.ts";
import { PartialFile, type PartialOrigin } from "./partial-file.ts";
import { type AcceptedResponse, requestRange } from "./range-request.ts";
import { findMissingRanges } from "./ranges.ts";
import { TooManyBytesError } from "./receive-body.ts";
import { receiveResponse } from "./receive-response.ts";
import { RequestGuard } from "./request-guard.ts";
import { resolveResumeState } from "./resume-state.ts";
import {
  BadRangeError,
  RangesRefusedError,
  RetryableError,
  SourceChangedError,
} from "./retryable-error.ts";
import { Claim, Segments } from "./segments.ts";
import type { TransferDependencies } from "./transfer-dependencies.ts";

/** A source that changes again and again while it is fetched is given up; it may be a farm of unequal servers. */
const CHANGES_MAX = 3;
/** So often a server may answer wrongly before all that has come in parts is given up for one stream. */
const BAD_RANGES_MAX = 3;
const WHOLE_FILE_SENT = "a part was asked for, and the whole file comes";
/** How often a connection without work looks whether another has become slow. */
const IDLE_MS = 250;

export interface TransferResult {
  readonly digests: Digests;
  readonly sizeBytes: number;
}

/**
 * One content on its way to the disk, in one of two ways: `ranges`, several connections that bring parts;
 * `whole`, one stream from the first byte on, for servers that cannot or should not be asked for parts.
 * A changed source begins again with `ranges`; a server that does not do ranges rightly ends up with `whole`.
 */
export class FileTransfer {
  readonly #file: ResolvedFile;
  readonly #source: DownloadSource;
  readonly #sourceDigest: string;
  readonly #dir: string;
  readonly #dependencies: TransferDependencies;
  readonly #checkSpace: () => Promise<void>;
  readonly #backoff: DownloadBackoff;
  readonly #keys: Set<string>;
  readonly #hash: HashFollower;
  #mode: "ranges" | "whole" = "ranges";
  #partial: PartialFile | undefined;
  #sizeBytes: number | null;
  #validator: string | null = null;
  #getBufferedBytes: () => number = () => 0;
  #changes = 0;
  #badRanges = 0;
  #verifiedBytes: number | undefined;

  constructor(options: {
    readonly file: ResolvedFile;
    readonly url: string;
    readonly source: DownloadSource;
    /** Where it is kept while it is not whole. */
    readonly dir: string;
    readonly key: string;
    /** Called whenever more is known of what it will take, before a byte is written. */
    readonly checkSpace: () => Promise<void>;
    readonly tools: TransferDependencies;
  }) {
    this.#file = options.file;
    this.#source = options.source;
    this.#sourceDigest = createHash("sha256").update(options.url).digest("hex");
    this.#dir = options.dir;
    this.#keys = new Set([options.key]);
    this.#checkSpace = options.checkSpace;
    this.#dependencies = options.tools;
    this.#hash = new HashFollower(options.tools.hasher, options.file.gitBlob !== null);
    this.#sizeBytes = options.file.sizeBytes;
    this.#backoff = new DownloadBackoff(
      options.tools.clock,
      options.tools.limits,
      options.tools.partsMax,
    );
  }

  get totalBytes(): number | null {
    return this.#sizeBytes;
  }

  get doneBytes(): number {
    return (this.#partial?.writtenBytes ?? 0) + this.#getBufferedBytes();
  }

  /** Of the disk that it will still take; 0 while nobody knows. */
  get missingBytes(): number {
    return Math.max(0, (this.#sizeBytes ?? 0) - (this.#partial?.writtenBytes ?? 0));
  }

  /** How far the reading of what has come is, once all has come; undefined before. */
  get verifiedBytes(): number | undefined {
    return this.#verifiedBytes;
  }

  /** Another model wants it too. */
  addKey(key: string): void {
    this.#keys.add(key);
    this.#partial?.setOrigin(this.#getOrigin());
  }

  /** Brings all of it, flushed, and hashes it. Whatever it ends with, what has come is kept. */
  async run(signal: AbortSignal): Promise<TransferResult> {
    try {
      const partial = await PartialFile.open(
        this.#dir,
        this.#getOrigin(),
        this.#dependencies.writes,
      );
      this.#partial = partial;
      try {
        await this.#resume(partial);
        await this.#checkSpace();
        await this.#transferAll(partial, signal);
        const [result] = await Promise.all([
          this.#finishHashing(partial, signal),
          partial.syncData(),
        ]);
        return result;
      } catch (error) {
        // Of no use to what is thrown, and it may meet the same full disk.
        await partial.flush().catch(() => {});
        throw error;
      } finally {
        this.#hash.cancel();
        await partial.close();
      }
    } catch (error) {
      throw toDiskError(error);
    }
  }

  get #hasDigest(): boolean {
    return this.#file.sha256 !== null || this.#file.gitBlob !== null;
  }

  #getOrigin(): PartialOrigin {
    return {
      source: this.#sourceDigest,
      validator: this.#validator,
      sizeBytes: this.#sizeBytes,
      keys: [...this.#keys],
    };
  }

  /** Goes on with what an earlier try has left, where that is certain to be of the same file. */
  async #resume(partial: PartialFile): Promise<void> {
    for (const key of partial.origin.keys) this.#keys.add(key);
    const resumeState = resolveResumeState(partial.origin, partial.written, {
      source: this.#sourceDigest,
      hasDigest: this.#hasDigest,
      sizeBytes: this.#sizeBytes,
    });
    if (!resumeState) {
      await partial.reset(this.#getOrigin());
      return;
    }
    this.#sizeBytes = resumeState.sizeBytes;
    this.#validator = resumeState.validator;
    partial.setOrigin(this.#getOrigin());
  }

  async #transferAll(partial: PartialFile, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        if (this.#mode === "ranges") await this.#transferParts(partial, signal);
        else await this.#withRetries(signal, () => this.#transferWhole(partial, signal));
        return;
      } catch (error) {
        if (error instanceof SourceChangedError) await this.#restart(partial, error);
        else if (error instanceof RangesRefusedError) {
          this.#dependencies.logger.info(
            { host: this.#source.host, reason: error.message },
            "a server does not send parts of a file; it is downloaded in one stream",
          );
          this.#mode = "whole";
        } else throw error;
      } finally {
        this.#getBufferedBytes = () => 0;
      }
    }
  }

  async #restart(partial: PartialFile, changed: SourceChangedError): Promise<void> {
    const promised = this.#file.sizeBytes;
    if (promised !== null && changed.sizeBytes !== null && changed.sizeBytes !== promised)
      throw sizeMismatchError(this.#file.name, promised, changed.sizeBytes);
    this.#changes += 1;
    if (this.#changes > CHANGES_MAX)
      throw sourceUnreachableError(
        `${this.#file.name} changed ${this.#changes} times at ${this.#source.host} while it was downloaded`,
      );
    this.#dependencies.logger.warn(
      { host: this.#source.host },
      "a file changed at its source while it was downloaded; it is begun again",
    );
    this.#mode = "ranges";
    this.#validator = null;
    this.#sizeBytes = promised;
    await this.#clear(partial);
  }

  async #clear(partial: PartialFile): Promise<void> {
    this.#hash.cancel();
    await partial.reset(this.#getOrigin());
  }

  /** The server says how large the file is before anything is divided. */
  async #fetchSize(signal: AbortSignal): Promise<number> {
    return this.#withRetries(signal, async () => {
      using guard = this.#createGuard(signal);
      const response = await this.#request({ start: 0, end: 1 }, guard, signal);
      response.response.destroy();
      if (response.type === "whole") throw new RangesRefusedError(WHOLE_FILE_SENT);
      return response.sizeBytes;
    });
  }

  async #transferParts(partial: PartialFile, signal: AbortSignal): Promise<void> {
    if (this.#sizeBytes === null) {
      this.#sizeBytes = await this.#fetchSize(signal);
      partial.setOrigin(this.#getOrigin());
      await this.#checkSpace();
    }
    const segments = new Segments(
      findMissingRanges(partial.written, this.#sizeBytes),
      this.#dependencies.partsMax,
    );
    this.#getBufferedBytes = () => segments.bufferedBytes;
    this.#startHashing(partial);
    await runConnections(
      segments,
      this.#dependencies.partsMax,
      (index, ending, onPart) => this.#runConnection(partial, segments, index, ending, onPart),
      signal,
    );
  }

  /** Brings one part after the other, until none is left. */
  async #runConnection(
    partial: PartialFile,
    segments: Segments,
    index: number,
    signal: AbortSignal,
    onPart: () => void,
  ): Promise<void> {
    while (!segments.isDone) {
      // A server that is overloaded is asked by fewer; the first goes on in any case.
      if (index >= this.#backoff.connectionsMax) return;
      await this.#backoff.wait(signal);
      const claim = segments.claim(this.#dependencies.clock.now());
      if (!claim) {
        await delay(this.#dependencies.clock, IDLE_MS, signal);
        continue;
      }
      try {
        await this.#transferPart(partial, claim, signal, onPart);
      } catch (error) {
        this.#handleError(error);
      } finally {
        segments.release(claim);
      }
    }
  }

  async #transferPart(
    partial: PartialFile,
    claim: Claim,
    signal: AbortSignal,
    onPart: () => void,
  ): Promise<void> {
    using guard = this.#createGuard(signal);
    const response = await this.#request({ start: claim.received, end: claim.end }, guard, signal);
    if (response.type === "whole") {
      response.response.destroy();
      // Where something is there, parts did come once.
      throw partial.writtenBytes === 0
        ? new RangesRefusedError(WHOLE_FILE_SENT)
        : new BadRangeError(response.host, WHOLE_FILE_SENT);
    }
    if (!this.#hasDigest && response.validator === null) {
      response.response.destroy();
      throw new RangesRefusedError("nothing tells whether two parts are of the same file");
    }
    this.#rememberValidator(partial, response.validator);
    onPart();
    try {
      await this.#receive(partial, response, claim, response.end, guard, signal);
    } catch (error) {
      if (error instanceof TooManyBytesError)
        throw new BadRangeError(response.host, "more bytes come than were announced");
      throw error;
    }
    if (claim.written < Math.min(claim.end, response.end))
      throw new RetryableError(sourceUnreachableError(`${response.host} cut the connection`));
  }

  /** From the first byte on, whatever is there. */
  async #transferWhole(partial: PartialFile, signal: AbortSignal): Promise<void> {
    using guard = this.#createGuard(signal);
    const response = await this.#request(undefined, guard, signal);
    this.#validator = response.validator;
    const isSizeNew = this.#sizeBytes === null && response.sizeBytes !== null;
    this.#sizeBytes = response.sizeBytes;
    try {
      await this.#clear(partial);
      if (isSizeNew) await this.#checkSpace();
      this.#startHashing(partial);
      const end = this.#sizeBytes ?? Number.MAX_SAFE_INTEGER;
      const claim = new Claim({ start: 0, end }, this.#dependencies.clock.now());
      this.#getBufferedBytes = () => claim.received - claim.written;
      await this.#receive(partial, response, claim, end, guard, signal);
      if (this.#sizeBytes !== null && claim.written < this.#sizeBytes)
        throw new RetryableError(sourceUnreachableError(`${response.host} cut the connection`));
      this.#sizeBytes = claim.written;
    } catch (error) {
      response.response.destroy();
      if (!(error instanceof TooManyBytesError)) throw error;
      throw sizeMismatchError(this.#file.name, this.#sizeBytes ?? 0, (this.#sizeBytes ?? 0) + 1);
    }
  }

  #request(
    range: { readonly start: number; readonly end: number } | undefined,
    guard: RequestGuard,
    signal: AbortSignal,
  ): Promise<AcceptedResponse> {
    return requestRange({
      source: this.#source,
      name: this.#file.name,
      expected: { range, sizeBytes: this.#sizeBytes, validator: this.#validator },
      guard,
      signal,
      clock: this.#dependencies.clock,
      stallMs: this.#dependencies.limits.stallMs,
    });
  }

  #receive(
    partial: PartialFile,
    response: AcceptedResponse,
    claim: Claim,
    end: number,
    guard: RequestGuard,
    signal: AbortSignal,
  ): Promise<void> {
    const write = async (buffers: readonly Buffer[], position: number) => {
      await partial.write(buffers, position, this.#dependencies.clock.now());
      this.#hash.advance(partial);
    };
    return receiveResponse(response, claim, end, { ...this.#dependencies, guard, write }, signal);
  }

  #startHashing(partial: PartialFile): void {
    if (this.#sizeBytes !== null) this.#hash.follow(partial, this.#sizeBytes);
  }

  async #finishHashing(partial: PartialFile, signal: AbortSignal): Promise<TransferResult> {
    const sizeBytes = this.#sizeBytes ?? partial.prefixBytes;
    this.#verifiedBytes = 0;
    const digests = await this.#hash.finish(
      partial,
      sizeBytes,
      (bytes) => {
        this.#verifiedBytes = bytes;
      },
      signal,
    );
    return { digests, sizeBytes };
  }

  #rememberValidator(partial: PartialFile, validator: string | null): void {
    if (validator === null || validator === this.#validator) return;
    this.#validator = validator;
    partial.setOrigin(this.#getOrigin());
  }

  #createGuard(signal: AbortSignal): RequestGuard {
    return new RequestGuard(this.#dependencies.clock, this.#dependencies.limits.stallMs, signal);
  }

  /** Throws what another try cannot mend, or has not mended for too long. */
  #handleError(error: unknown): void {
    if (!(error instanceof RetryableError)) throw error;
    this.#dependencies.logger.debug({ reason: error.message }, "a part of a download failed");
    if (error instanceof BadRangeError && this.#mode === "ranges") {
      this.#badRanges += 1;
      if (this.#badRanges >= BAD_RANGES_MAX) throw new RangesRefusedError(error.message);
    }
    this.#backoff.recordFailure(error, this.doneBytes);
  }

  async #withRetries<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (;;) {
      await this.#backoff.wait(signal);
      try {
        return await work();
      } catch (error) {
        this.#handleError(error);
      }
    }
  }
}
