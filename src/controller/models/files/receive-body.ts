import type { IncomingMessage } from "node:http";
import type { Clock } from "../../../base/clock.ts";
import type { BandwidthLimiter } from "./bandwidth-limiter.ts";
import type { RequestGuard } from "./request-guard.ts";
import type { Claim } from "./segments.ts";

/** Written at once: below a mebibyte the calls cost more than the copying. */
const WRITE_BYTES = 2 ** 20;
/** Or after so long, so that a slow connection's bytes do not wait in memory. */
const WRITE_AFTER_MS = 500;

/** More bytes came than were announced. None of those is written. */
export class TooManyBytesError extends Error {}

export interface ReceiveDependencies {
  readonly clock: Clock;
  readonly bandwidth: BandwidthLimiter;
  readonly guard: RequestGuard;
  readonly write: (buffers: readonly Buffer[], position: number) => Promise<void>;
}

/**
 * Brings an answer's body to its place, up to `end`, where the answer said that it ends, or to the end of the
 * claim where that has come nearer. What had come before a failure is written. Ends early without an error
 * where the body does: the claim tells how far it is.
 */
export async function receiveBody(
  body: IncomingMessage,
  claim: Claim,
  end: number,
  tools: ReceiveDependencies,
): Promise<void> {
  const batches = new WriteBatcher(claim, tools);
  try {
    await readChunks(body, claim, end, batches, tools);
  } finally {
    await tools.guard.pauseWhile(batches.finish());
  }
}

/** By events: an iterator costs a fifth more time, with sixteen thousand pieces in a gigabyte. */
function readChunks(
  body: IncomingMessage,
  claim: Claim,
  end: number,
  batches: WriteBatcher,
  { bandwidth, guard }: ReceiveDependencies,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      body.destroy();
      reject(error);
    };
    /** Not reading is what slows the sender down. */
    const pauseFor = (work: Promise<void>) => {
      body.pause();
      guard.pauseWhile(work).then(() => body.resume(), fail);
    };
    body.on("data", (chunk: Buffer) => {
      guard.touch();
      if (claim.received + chunk.length > end) {
        fail(new TooManyBytesError());
        return;
      }
      const full = batches.add(chunk.subarray(0, Math.max(0, claim.end - claim.received)));
      // Another connection has taken the rest over. Else the body is read to its end: the connection lives on.
      if (claim.received >= claim.end && claim.end < end) {
        body.destroy();
        resolve();
        return;
      }
      const wait = bandwidth.acquire(chunk.length, guard.signal);
      const both = full && wait ? Promise.all([full, wait]).then(() => undefined) : (full ?? wait);
      if (both) pauseFor(both);
    });
    body.once("end", resolve);
    body.once("error", reject);
    body.once("close", resolve);
  });
}

/** What has come and is not written. One write goes on while the next bytes are gathered, and no more than one. */
class WriteBatcher {
  readonly #claim: Claim;
  readonly #dependencies: ReceiveDependencies;
  #gathered: Buffer[] = [];
  #bytes = 0;
  #sinceMs: number;
  #writing: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(claim: Claim, tools: ReceiveDependencies) {
    this.#claim = claim;
    this.#dependencies = tools;
    this.#sinceMs = tools.clock.now();
  }

  /** Takes what comes next. A promise is given back where nothing more should be added before it resolves. */
  add(chunk: Buffer): Promise<void> | undefined {
    this.#claim.received += chunk.length;
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

  /** When it has resolved, all of it is written. */
  async finish(): Promise<void> {
    await this.#writing;
    if (this.#bytes > 0 && !this.#failure) this.#start();
    await this.#writing;
    if (this.#failure) throw this.#failure.error;
  }

  /** Never rejects: the failure is told to whoever adds or finishes next. */
  async #write(buffers: readonly Buffer[], position: number, bytes: number): Promise<void> {
    try {
      await this.#dependencies.write(buffers, position);
      this.#claim.written = position + bytes;
    } catch (error) {
      this.#failure = { error };
    } finally {
      this.#writing = undefined;
    }
  }

  #start(): void {
    if (this.#failure || this.#bytes === 0) return;
    const claim = this.#claim;
    const [buffers, bytes, position] = [this.#gathered, this.#bytes, claim.received - this.#bytes];
    this.#gathered = [];
    this.#bytes = 0;
    this.#sinceMs = this.#dependencies.clock.now();
    this.#writing = this.#write(buffers, position, bytes);
  }
}
