import { Readable } from "node:stream";
import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import { BUILD_UPLOAD_IDLE_LIMIT_MS } from "./docker-limits.ts";

/** How much is read ahead of the engine; what a pipe and a socket hold comes on top. */
const AHEAD_BYTES = 64 * 1024;

/**
 * A build context on its way to the engine: read only as fast as the engine takes it. Disposing of it
 * destroys the source, whether it was read to its end or not.
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
    // Without a listener an error would end the process once nothing reads any more.
    this.stream.on("error", () => {});
    // Begins to read at once: Node throws away what a child process wrote and nobody read when it ends.
    this.stream.read(0);
  }

  /** Why the context could not be read or sent to its end; undefined where it was. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Calls once with the failure, at once where it has happened already. */
  onFailure(listener: (error: unknown) => void): void {
    if (this.#failure !== undefined) listener(this.#failure);
    else this.stream.once("error", (error) => listener(this.#failure ?? error));
  }

  /** The engine has all that it needs of the context: what it leaves unread is padding. */
  markConsumed(): void {
    this.#isConsumed = true;
  }

  [Symbol.dispose](): void {
    this.stream.destroy();
    // Its iterator may wait for data that never comes, and would be told of the end only then.
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
      `cannot send the source to the engine: it took nothing for ${BUILD_UPLOAD_IDLE_LIMIT_MS / 1000} s`,
      { hint: "it may be overloaded or stuck: look at its log, or restart it" },
    );
    this.stream.destroy(new Error("the engine takes nothing"));
  }
}

const noop = () => {};
