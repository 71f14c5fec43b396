import { type Readable, Transform } from "node:stream";

export interface BodyBudgetOptions {
  readonly bytesMax: number;
  /** Creates the error for a body that would exceed the limit. */
  readonly createError: () => Error;
}

/**
 * Limits the memory that all request bodies of a server use together. A limit for each single body is not enough,
 * because many connections together could use many times that limit. Counts the bytes that have arrived, not those
 * that a client has announced, so that clients that send nothing do not use up the limit.
 */
export class BodyBudget {
  readonly #options: BodyBudgetOptions;
  #bytes = 0;

  constructor(options: BodyBudgetOptions) {
    this.#options = options;
  }

  /**
   * Returns a stream of the same data. The stream fails as soon as the limit is exceeded, but the connection stays
   * open. The caller must call `release` when the body is not in memory any more.
   */
  count(body: Readable): { readonly stream: Readable; readonly release: () => void } {
    let held = 0;
    const release = () => {
      this.#bytes -= held;
      held = 0;
    };
    const stream = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        held += chunk.length;
        this.#bytes += chunk.length;
        if (this.#bytes <= this.#options.bytesMax) return done(null, chunk);
        release();
        done(this.#options.createError());
      },
    });
    // If no parser reads the body, for example because the response was sent first, the stream has no other
    // listener for errors, and an error without a listener would end the process.
    stream.on("error", () => {});
    body.once("error", (error) => stream.destroy(error));
    body.pipe(stream);
    return { stream, release };
  }
}
