import type { Clock } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import type { BandwidthLimiter } from "./bandwidth-limiter.ts";
import type { RetryLimits } from "./download-backoff.ts";
import { sourceUnreachableError, toDiskError } from "./download-errors.ts";
import type { Part } from "./part-queue.ts";
import type { AcceptedResponse } from "./range-request.ts";
import type { RequestGuard } from "./request-guard.ts";
import { badRangeError, RetryableError, toNetworkError } from "./retryable-error.ts";

/** The size of a write. With writes below a mebibyte, the calls cost more than the copying. */
const WRITE_BYTES = 2 ** 20;
/**
 * The longest time before received bytes are written, so that the bytes of a slow connection do not wait in memory.
 */
const WRITE_AFTER_MS = 500;

interface ReceiveDependencies {
  readonly clock: Clock;
  readonly bandwidth: BandwidthLimiter;
  readonly limits: RetryLimits;
  readonly guard: RequestGuard;
  readonly write: (buffers: readonly Buffer[], position: number) => Promise<void>;
}

/**
 * Writes the body of a response to the file, up to `end` (the end of the response; null if it is not known). Stops
 * earlier at the end of the part, if another connection has taken over the rest of the part. Bytes that were received
 * before a failure are written. Throws RetryableError if the connection broke, or if the server sends too much
 * (`bad-range`: the surplus is not written). Otherwise throws the BerthError of the disk, or the signal's reason.
 */
export async function receiveBody(
  { response, host }: AcceptedResponse,
  part: Part,
  end: number | null,
  dependencies: ReceiveDependencies,
  signal: AbortSignal,
): Promise<void> {
  const { guard, limits } = dependencies;
  const batcher = new WriteBatcher(part, dependencies);
  try {
    try {
      await readChunks({ response, host }, part, end ?? Infinity, batcher, dependencies);
    } finally {
      await guard.pauseWhile(batcher.finish());
    }
  } catch (error) {
    signal.throwIfAborted();
    const seconds = limits.stallMs / 1000;
    if (guard.hasStalled)
      throw new RetryableError(
        "failed",
        sourceUnreachableError(`${host} sent nothing for ${seconds} s`),
      );
    const failure = toDiskError(error);
    throw failure instanceof BerthError || failure instanceof RetryableError
      ? failure
      : toNetworkError(host, error);
  }
  if (end !== null && part.written < Math.min(part.end, end))
    throw new RetryableError("failed", sourceUnreachableError(`${host} cut the connection`));
}

/**
 * Reads the chunks of a response through events. An iterator would take a fifth more time, because a gigabyte has
 * sixteen thousand chunks.
 */
function readChunks(
  { response, host }: Pick<AcceptedResponse, "response" | "host">,
  part: Part,
  end: number,
  batcher: WriteBatcher,
  { bandwidth, guard }: ReceiveDependencies,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      response.destroy();
      reject(error);
    };
    /** Pauses the response while `work` runs. If the client does not read, the sender slows down. */
    const pauseFor = (work: Promise<void>) => {
      response.pause();
      guard.pauseWhile(work).then(() => response.resume(), fail);
    };
    response.on("data", (chunk: Buffer) => {
      guard.touch();
      if (part.received + chunk.length > end) {
        fail(badRangeError(host, "the body is longer than announced"));
        return;
      }
      const full = batcher.add(chunk.subarray(0, Math.max(0, part.end - part.received)));
      // If another connection has taken over the rest of this part of the file, the response is closed, because its
      // remaining bytes are not needed. Otherwise the response is read to its end, so that its connection can be
      // reused.
      if (part.received >= part.end && part.end < end) {
        response.destroy();
        resolve();
        return;
      }
      const wait = bandwidth.acquire(chunk.length, guard.signal);
      const both = full && wait ? Promise.all([full, wait]).then(() => undefined) : (full ?? wait);
      if (both) pauseFor(both);
    });
    response.once("end", resolve);
    response.once("error", reject);
    response.once("close", resolve);
  });
}

/**
 * Writes received bytes to the file in batches. Only one write runs at a time, and the next batch is collected
 * meanwhile.
 */
class WriteBatcher {
  readonly #part: Part;
  readonly #dependencies: ReceiveDependencies;
  #gathered: Buffer[] = [];
  #bytes = 0;
  #sinceMs: number;
  #writing: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(part: Part, dependencies: ReceiveDependencies) {
    this.#part = part;
    this.#dependencies = dependencies;
    this.#sinceMs = dependencies.clock.now();
  }

  /** Adds a chunk. The caller must not add more until the returned promise, if any, has resolved. */
  add(chunk: Buffer): Promise<void> | undefined {
    this.#part.received += chunk.length;
    this.#gathered.push(chunk);
    this.#bytes += chunk.length;
    const isDue =
      this.#bytes >= WRITE_BYTES ||
      this.#dependencies.clock.now() - this.#sinceMs >= WRITE_AFTER_MS;
    if (!isDue) return undefined;
    if (this.#failure) return Promise.reject(this.#failure.error);
    if (this.#writing) return this.#writing.then(() => this.#start());
    this.#start();
    return undefined;
  }

  /** Writes the remaining bytes. Rejects if any write failed. */
  async finish(): Promise<void> {
    await this.#writing;
    if (this.#bytes > 0 && !this.#failure) this.#start();
    await this.#writing;
    if (this.#failure) throw this.#failure.error;
  }

  /** Writes the next batch. Never rejects: the next call of `add` or `finish` throws the failure. */
  async #write(buffers: readonly Buffer[], position: number, bytes: number): Promise<void> {
    try {
      await this.#dependencies.write(buffers, position);
      this.#part.written = position + bytes;
    } catch (error) {
      this.#failure = { error };
    } finally {
      this.#writing = undefined;
    }
  }

  #start(): void {
    if (this.#failure || this.#bytes === 0) return;
    const part = this.#part;
    const [buffers, bytes, position] = [this.#gathered, this.#bytes, part.received - this.#bytes];
    this.#gathered = [];
    this.#bytes = 0;
    this.#sinceMs = this.#dependencies.clock.now();
    this.#writing = this.#write(buffers, position, bytes);
  }
}
