import { createHash } from "node:crypto";
import { delay } from "../../../base/clock.ts";
import type { ResolvedFile } from "../hub/port.ts";
import { type Asked, ask } from "./ask.ts";
import { Backoff } from "./backoff.ts";
import { runConnections } from "./connections.ts";
import { diskFailure, sizeMismatch, unreachable } from "./failures.ts";
import type { Digests } from "./file-digest.ts";
import { HashFollower } from "./hash-follower.ts";
import { PartialFile, type PartialOrigin } from "./partial-file.ts";
import { missingRanges } from "./ranges.ts";
import { TooManyBytes } from "./receive.ts";
import { receiveFrom } from "./receive-from.ts";
import { RequestGuard } from "./request-guard.ts";
import { resumed } from "./resume.ts";
import { Claim, Segments } from "./segments.ts";
import { Lie, RangesRefused, Setback, SourceChanged } from "./setback.ts";
import type { Source } from "./source.ts";
import type { TransferTools } from "./transfer-tools.ts";

/** A source that changes again and again while it is fetched is given up; it may be a farm of unequal servers. */
const CHANGES_MAX = 3;
/** So often a server may answer wrongly before all that has come in parts is given up for one stream. */
const LIES_MAX = 3;
const WHOLE = "a part was asked for, and the whole file comes";
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
export class Transfer {
  readonly #file: ResolvedFile;
  readonly #source: Source;
  readonly #sourceDigest: string;
  readonly #dir: string;
  readonly #tools: TransferTools;
  readonly #checkSpace: () => Promise<void>;
  readonly #backoff: Backoff;
  readonly #keys: Set<string>;
  readonly #hash: HashFollower;
  #way: "ranges" | "whole" = "ranges";
  #partial: PartialFile | undefined;
  #sizeBytes: number | null;
  #validator: string | null = null;
  #buffered: () => number = () => 0;
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
    this.#hash = new HashFollower(options.tools.hasher, options.file.gitBlob !== null);
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
        const [result] = await Promise.all([this.#digest(partial, signal), partial.settle()]);
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
    for (const key of partial.origin.keys) this.#keys.add(key);
    const still = resumed(partial.origin, partial.written, {
      source: this.#sourceDigest,
      hasDigest: this.#hasDigest,
      sizeBytes: this.#sizeBytes,
    });
    if (!still) {
      await partial.reset(this.#origin());
      return;
    }
    this.#sizeBytes = still.sizeBytes;
    this.#validator = still.validator;
    partial.setOrigin(this.#origin());
  }

  async #bringAll(partial: PartialFile, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        if (this.#way === "ranges") await this.#bringParts(partial, signal);
        else await this.#retrying(signal, () => this.#bringWhole(partial, signal));
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
    this.#hash.cancel();
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
    await runConnections(
      segments,
      this.#tools.partsMax,
      (index, ending, onPart) => this.#connection(partial, segments, index, ending, onPart),
      signal,
    );
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

  #receive(
    partial: PartialFile,
    asked: Asked,
    claim: Claim,
    end: number,
    guard: RequestGuard,
    signal: AbortSignal,
  ): Promise<void> {
    const write = async (buffers: readonly Buffer[], position: number) => {
      await partial.write(buffers, position, this.#tools.clock.now());
      this.#hash.advance(partial);
    };
    return receiveFrom(asked, claim, end, { ...this.#tools, guard, write }, signal);
  }

  #follow(partial: PartialFile): void {
    if (this.#sizeBytes !== null) this.#hash.follow(partial, this.#sizeBytes);
  }

  async #digest(partial: PartialFile, signal: AbortSignal): Promise<TransferResult> {
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
