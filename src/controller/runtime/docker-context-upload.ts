import { Readable } from "node:stream";
import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import { BUILD_UPLOAD_IDLE_LIMIT_MS } from "./docker-limits.ts";

/** The maximum number of bytes read before the engine asks for them, in addition to buffers of pipes and sockets. */
const AHEAD_BYTES = 64 * 1024;

/**
 * The upload of a build context. The context is read only as fast as the engine reads it. Disposing of the upload
 * always destroys the source.
 */
export class ContextUpload implements Disposable {
  readonly stream: Readable;
  readonly #source: AsyncIterable<Uint8Array>;
  #failure: unknown;
  #isConsumed = false;

  constructor(clock: Clock, source: AsyncIterable<Uint8Array>) {
    this.#source = source;
    this.stream = Readable.from(this.#readSource(clock), {
      objectMode: false,
      highWaterMark: AHEAD_BYTES,
    });
    // If no reader of the stream is left, this listener keeps an error of the stream from ending the process.
    this.stream.on("error", () => {});
    // Starts reading immediately, because Node discards unread output of a child process when that process exits.
    this.stream.read(0);
  }

  /** The reason why the context was not read or sent completely; undefined if it was. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Calls the listener once with the failure, or immediately if the failure has already happened. */
  onFailure(listener: (error: unknown) => void): void {
    if (this.#failure !== undefined) listener(this.#failure);
    else this.stream.once("error", (error) => listener(this.#failure ?? error));
  }

  /** Called when the engine has read all that it needs of the context; the rest of the archive is padding. */
  markConsumed(): void {
    this.#isConsumed = true;
  }

  [Symbol.dispose](): void {
    this.stream.destroy();
    // The source is destroyed too, because an iterator that waits for data does not notice that the stream was
    // destroyed.
    if (this.#source instanceof Readable) this.#source.destroy();
  }

  async *#readSource(clock: Clock): AsyncGenerator<Uint8Array> {
    let cancel = noop;
    try {
      for await (const chunk of this.#source) {
        cancel = clock.setTimer(BUILD_UPLOAD_IDLE_LIMIT_MS, () => this.#handleStall());
        yield chunk;
        cancel();
      }
    } catch (error) {
      this.#failure ??= error;
      throw error;
    } finally {
      cancel();
    }
  }

  #handleStall(): void {
    if (this.#isConsumed) return;
    this.#failure ??= new BerthError(
      "engine_unreachable",
      `cannot send the source to the engine: the engine read nothing for ${BUILD_UPLOAD_IDLE_LIMIT_MS / 1000} s`,
      { hint: "the engine may be overloaded or stuck: see its log, or restart it" },
    );
    this.stream.destroy(new Error("the engine reads nothing"));
  }
}

const noop = () => {};
