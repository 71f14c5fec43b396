import { type Readable, Transform } from "node:stream";

export interface BodyBudgetOptions {
  readonly bytesMax: number;
  /** Creates the error of a body for which there is no room. */
  readonly createError: () => Error;
}

/**
 * Limits the memory of all request bodies of a server together: a limit for each body alone would let many connections
 * hold many times as much. Counts the bytes that have arrived, not those that a client has announced, so that clients
 * that send nothing take no room from others.
 */
export class BodyBudget {
  readonly #options: BodyBudgetOptions;
  #bytes = 0;

  constructor(options: BodyBudgetOptions) {
    this.#options = options;
  }

  /**
   * Returns a stream of the same data that fails as soon as there is no room for more, without ending the connection.
   * `release` must be called when the body is not in memory any more.
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
    // The stream has no other listener if no parser reads the body, for example because the response precedes it.
    stream.on("error", () => {});
    body.once("error", (error) => stream.destroy(error));
    body.pipe(stream);
    return { stream, release };
  }
}
