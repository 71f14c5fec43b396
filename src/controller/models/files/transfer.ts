import { createHash } from "node:crypto";
import { type Clock, delay } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/logger.ts";
import type { ResolvedFile } from "../hub/port.ts";
import { type Asked, ask } from "./ask.ts";
import { Backoff, type RetryLimits } from "./backoff.ts";
import type { Bandwidth } from "./bandwidth.ts";
import { diskFailure, sizeMismatch, unreachable } from "./failures.ts";
import type { Digests } from "./file-digest.ts";
import type { HashJob } from "./hash-thread.ts";
import type { Hasher } from "./hasher.ts";
import { PartialFile, type PartialOrigin } from "./partial-file.ts";
import { missingRanges } from "./ranges.ts";
import { receive, TooManyBytes } from "./receive.ts";
import { RequestGuard } from "./request-guard.ts";
import { Claim, Segments } from "./segments.ts";
import { Lie, ofNetwork, RangesRefused, Setback, SourceChanged } from "./setback.ts";
import type { Source } from "./source.ts";
import type { Turns } from "./turns.ts";

/** A source that changes again and again while it is fetched is given up; it may be a farm of unequal servers. */
const CHANGES_MAX = 3;
/** So often a server may answer wrongly before all that has come in parts is given up for one stream. */
const LIES_MAX = 3;
const WHOLE = "a part was asked for, and the whole file comes";
/** How often a connection without work looks whether another has become slow. */
const IDLE_MS = 250;

export interface TransferTools {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bandwidth: Bandwidth;
  readonly hasher: Hasher;
  readonly writes: Turns;
  readonly partsMax: number;
  readonly limits: RetryLimits;
}

export interface TransferResult {
  readonly digests: Digests;
  readonly sizeBytes: number;
}

/**
 * One content on its way to the disk, in one of two ways: `ranges`, several connections that bring parts;
 * `whole`, one stream from the first byte on, for servers that cannot or should not be asked for parts.
 * A changed source begins again with `ranges`; a server that does not do ranges rightly ends up with `whole`.
 */
export class Transfer {
  readonly #file: ResolvedFile;
  readonly #source: Source;
  readonly #sourceDigest: string;
  readonly #dir: string;
  readonly #tools: TransferTools;
  readonly #checkSpace: () => Promise<void>;
  readonly #backoff: Backoff;
  readonly #keys: Set<string>;
  #way: "ranges" | "whole" = "ranges";
  #partial: PartialFile | undefined;
  #sizeBytes: number | null;
  #validator: string | null = null;
  #buffered: () => number = () => 0;
  #job: HashJob | undefined;
  #changes = 0;
  #lies = 0;
  #verifiedBytes: number | undefined;

  constructor(options: {
    readonly file: ResolvedFile;
    readonly url: string;
    readonly source: Source;
    /** Where it is kept while it is not whole. */
    readonly dir: string;
    readonly key: string;
    /** Called whenever more is known of what it will take, before a byte is written. */
    readonly checkSpace: () => Promise<void>;
    readonly tools: TransferTools;
  }) {
    this.#file = options.file;
    this.#source = options.source;
    this.#sourceDigest = createHash("sha256").update(options.url).digest("hex");
    this.#dir = options.dir;
    this.#keys = new Set([options.key]);
    this.#checkSpace = options.checkSpace;
    this.#tools = options.tools;
    this.#sizeBytes = options.file.sizeBytes;
    this.#backoff = new Backoff(options.tools.clock, options.tools.limits, options.tools.partsMax);
  }

  get totalBytes(): number | null {
    return this.#sizeBytes;
  }

  get doneBytes(): number {
    return (this.#partial?.writtenBytes ?? 0) + this.#buffered();
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
    this.#partial?.setOrigin(this.#origin());
  }

  /** Brings all of it, flushed, and hashes it. Whatever it ends with, what has come is kept. */
  async run(signal: AbortSignal): Promise<TransferResult> {
    try {
      const partial = await PartialFile.open(this.#dir, this.#origin(), this.#tools.writes);
      this.#partial = partial;
      try {
        await this.#takeUp(partial);
        await this.#checkSpace();
        await this.#bringAll(partial, signal);
        return await this.#digest(partial, signal);
      } finally {
        this.#job?.cancel();
        // Of no use to what is thrown, and it may meet the same full disk.
        await partial.flush().catch(() => {});
        await partial.close();
      }
    } catch (error) {
      throw diskFailure(error);
    }
  }

  get #hasDigest(): boolean {
    return this.#file.sha256 !== null || this.#file.gitBlob !== null;
  }

  #origin(): PartialOrigin {
    return {
      source: this.#sourceDigest,
      validator: this.#validator,
      sizeBytes: this.#sizeBytes,
      keys: [...this.#keys],
    };
  }

  /** Goes on with what an earlier try has left, where that is certain to be of the same file. */
  async #takeUp(partial: PartialFile): Promise<void> {
    const found = partial.origin;
    const sizeBytes = this.#sizeBytes ?? found.sizeBytes;
    for (const key of found.keys) this.#keys.add(key);
    const isSameSource = found.source === this.#sourceDigest;
    // With a digest the end will tell; without one only the entity tag can.
    const isCertain = this.#hasDigest || (isSameSource && found.validator !== null);
    const fits =
      found.sizeBytes === null || found.sizeBytes === sizeBytes || partial.written.length === 0;
    if (!isCertain || !fits || (partial.written.at(-1)?.end ?? 0) > (sizeBytes ?? 0)) {
      await partial.reset(this.#origin());
      return;
    }
    this.#sizeBytes = sizeBytes;
    this.#validator = isSameSource ? found.validator : null;
    partial.setOrigin(this.#origin());
  }

  async #bringAll(partial: PartialFile, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        if (this.#way === "ranges") await this.#bringParts(partial, signal);
        else await this.#retrying(signal, () => this.#bringWhole(partial, signal));
        await partial.flush();
        return;
      } catch (error) {
        if (error instanceof SourceChanged) await this.#startOver(partial, error);
        else if (error instanceof RangesRefused) {
          this.#tools.logger.info(
            { host: this.#source.host, reason: error.message },
            "a server does not send parts of a file; it is downloaded in one stream",
          );
          this.#way = "whole";
        } else throw error;
      } finally {
        this.#buffered = () => 0;
      }
    }
  }

  async #startOver(partial: PartialFile, changed: SourceChanged): Promise<void> {
    const promised = this.#file.sizeBytes;
    if (promised !== null && changed.sizeBytes !== null && changed.sizeBytes !== promised)
      throw sizeMismatch(this.#file.name, promised, changed.sizeBytes);
    this.#changes += 1;
    if (this.#changes > CHANGES_MAX)
      throw unreachable(
        `${this.#file.name} changed ${this.#changes} times at ${this.#source.host} while it was downloaded`,
      );
    this.#tools.logger.warn(
      { host: this.#source.host },
      "a file changed at its source while it was downloaded; it is begun again",
    );
    this.#way = "ranges";
    this.#validator = null;
    this.#sizeBytes = promised;
    await this.#clear(partial);
  }

  async #clear(partial: PartialFile): Promise<void> {
    this.#job?.cancel();
    this.#job = undefined;
    await partial.reset(this.#origin());
  }

  /** The server says how large the file is before anything is divided. */
  async #learnSize(signal: AbortSignal): Promise<number> {
    return this.#retrying(signal, async () => {
      using guard = this.#guard(signal);
      const asked = await this.#ask({ start: 0, end: 1 }, guard, signal);
      asked.response.destroy();
      if (asked.type === "whole") throw new RangesRefused(WHOLE);
      return asked.sizeBytes;
    });
  }

  async #bringParts(partial: PartialFile, signal: AbortSignal): Promise<void> {
    if (this.#sizeBytes === null) {
      this.#sizeBytes = await this.#learnSize(signal);
      partial.setOrigin(this.#origin());
      await this.#checkSpace();
    }
    const segments = new Segments(
      missingRanges(partial.written, this.#sizeBytes),
      this.#tools.partsMax,
    );
    this.#buffered = () => segments.bufferedBytes;
    this.#follow(partial);
    const siblings = new AbortController();
    const onAbort = () => siblings.abort(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    let failure: { readonly error: unknown } | undefined;
    const connections: Promise<void>[] = [];
    const connect = () => {
      const run = this.#connection(partial, segments, connections.length, siblings.signal, () => {
        // The first part shows that there are parts: now the others may begin.
        while (connections.length < this.#tools.partsMax) connect();
      });
      connections.push(
        run
          .catch((error: unknown) => {
            failure ??= { error };
          })
          // One that fails ends all; so does one that finds everything done, for those that wait for work.
          .finally(() => {
            if (failure || segments.isDone) siblings.abort(new DOMException("over", "AbortError"));
          }),
      );
    };
    connect();
    for (let index = 0; index < connections.length; index += 1) await connections[index];
    signal.removeEventListener("abort", onAbort);
    if (segments.isDone) return;
    signal.throwIfAborted();
    throw failure?.error;
  }

  /** Brings one part after the other, until none is left. */
  async #connection(
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
      const claim = segments.claim(this.#tools.clock.now());
      if (!claim) {
        await delay(this.#tools.clock, IDLE_MS, signal);
        continue;
      }
      try {
        await this.#bringPart(partial, claim, signal, onPart);
      } catch (error) {
        this.#setBack(error);
      } finally {
        segments.release(claim);
      }
    }
  }

  async #bringPart(
    partial: PartialFile,
    claim: Claim,
    signal: AbortSignal,
    onPart: () => void,
  ): Promise<void> {
    using guard = this.#guard(signal);
    const asked = await this.#ask({ start: claim.received, end: claim.end }, guard, signal);
    if (asked.type === "whole") {
      asked.response.destroy();
      // Where something is there, parts did come once.
      throw partial.writtenBytes === 0 ? new RangesRefused(WHOLE) : new Lie(asked.host, WHOLE);
    }
    if (!this.#hasDigest && asked.validator === null) {
      asked.response.destroy();
      throw new RangesRefused("nothing tells whether two parts are of the same file");
    }
    this.#remember(partial, asked.validator);
    onPart();
    try {
      await this.#receive(partial, asked, claim, asked.end, guard, signal);
    } catch (error) {
      if (error instanceof TooManyBytes)
        throw new Lie(asked.host, "more bytes come than were announced");
      throw error;
    }
    if (claim.written < Math.min(claim.end, asked.end))
      throw new Setback(unreachable(`${asked.host} cut the connection`));
  }

  /** From the first byte on, whatever is there. */
  async #bringWhole(partial: PartialFile, signal: AbortSignal): Promise<void> {
    using guard = this.#guard(signal);
    const asked = await this.#ask(undefined, guard, signal);
    this.#validator = asked.validator;
    const isNews = this.#sizeBytes === null && asked.sizeBytes !== null;
    this.#sizeBytes = asked.sizeBytes;
    try {
      await this.#clear(partial);
      if (isNews) await this.#checkSpace();
      this.#follow(partial);
      const end = this.#sizeBytes ?? Number.MAX_SAFE_INTEGER;
      const claim = new Claim({ start: 0, end }, this.#tools.clock.now());
      this.#buffered = () => claim.received - claim.written;
      await this.#receive(partial, asked, claim, end, guard, signal);
      if (this.#sizeBytes !== null && claim.written < this.#sizeBytes)
        throw new Setback(unreachable(`${asked.host} cut the connection`));
      this.#sizeBytes = claim.written;
    } catch (error) {
      asked.response.destroy();
      if (!(error instanceof TooManyBytes)) throw error;
      throw sizeMismatch(this.#file.name, this.#sizeBytes ?? 0, (this.#sizeBytes ?? 0) + 1);
    }
  }

  #ask(
    range: { readonly start: number; readonly end: number } | undefined,
    guard: RequestGuard,
    signal: AbortSignal,
  ): Promise<Asked> {
    return ask({
      source: this.#source,
      name: this.#file.name,
      expected: { range, sizeBytes: this.#sizeBytes, validator: this.#validator },
      guard,
      signal,
      clock: this.#tools.clock,
      stallMs: this.#tools.limits.stallMs,
    });
  }

  async #receive(
    partial: PartialFile,
    { response, host }: Asked,
    claim: Claim,
    end: number,
    guard: RequestGuard,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, bandwidth, limits } = this.#tools;
    try {
      await receive(response, claim, end, {
        clock,
        bandwidth,
        guard,
        write: async (buffers, position) => {
          await partial.write(buffers, position, clock.now());
          this.#job?.advance(partial.prefixBytes);
        },
      });
    } catch (error) {
      signal.throwIfAborted();
      if (guard.hasStalled)
        throw new Setback(unreachable(`${host} sent nothing for ${limits.stallMs / 1000} s`));
      const mapped = diskFailure(error);
      if (mapped instanceof BerthError || error instanceof TooManyBytes) throw mapped;
      throw ofNetwork(host, error);
    }
  }

  /** The hash follows the bytes as far as there is no gap before them. */
  #follow(partial: PartialFile): void {
    if (this.#sizeBytes === null) return;
    this.#job ??= this.#tools.hasher.open(partial.path, this.#sizeBytes, this.#wanted());
    this.#job.advance(partial.prefixBytes);
  }

  #wanted(): { readonly gitBlobBytes: number | null } {
    return { gitBlobBytes: this.#file.gitBlob === null ? null : this.#sizeBytes };
  }

  async #digest(partial: PartialFile, signal: AbortSignal): Promise<TransferResult> {
    const sizeBytes = this.#sizeBytes ?? partial.prefixBytes;
    this.#verifiedBytes = 0;
    this.#job ??= this.#tools.hasher.open(partial.path, sizeBytes, this.#wanted());
    const job = this.#job;
    const onRead = (bytes: number) => {
      this.#verifiedBytes = bytes;
    };
    return { digests: await job.finish(sizeBytes, onRead, signal), sizeBytes };
  }

  #remember(partial: PartialFile, validator: string | null): void {
    if (validator === null || validator === this.#validator) return;
    this.#validator = validator;
    partial.setOrigin(this.#origin());
  }

  #guard(signal: AbortSignal): RequestGuard {
    return new RequestGuard(this.#tools.clock, this.#tools.limits.stallMs, signal);
  }

  /** Throws what another try cannot mend, or has not mended for too long. */
  #setBack(error: unknown): void {
    if (!(error instanceof Setback)) throw error;
    this.#tools.logger.debug({ reason: error.message }, "a part of a download failed");
    if (error instanceof Lie && this.#way === "ranges") {
      this.#lies += 1;
      if (this.#lies >= LIES_MAX) throw new RangesRefused(error.message);
    }
    this.#backoff.add(error, this.doneBytes);
  }

  async #retrying<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (;;) {
      await this.#backoff.wait(signal);
      try {
        return await work();
      } catch (error) {
        this.#setBack(error);
      }
    }
  }
}
