import { type Readable, Transform } from "node:stream";

/**
 * The sender of a request, as the names of the groups that it belongs to, from the widest to the narrowest, such as its
 * user and its process.
 */
export type Sender = readonly string[];

export interface BodyBudgetOptions {
  readonly bytesMax: number;
  /** Creates the error for a body that would exceed the limit, or the share of its sender. */
  readonly createError: () => Error;
}

interface CountedBody {
  bytes: number;
  readonly findSender: () => Promise<Sender>;
  sender?: Promise<Sender>;
  /** What `sender` has resolved to. */
  knownSender?: Sender;
}

/**
 * The largest number of groups in a `Sender`. Below the limit divided by 2 for each group, no sender can exceed its
 * share, so senders are not looked up until more than that is used.
 */
const GROUPS_MAX = 2;

/**
 * Limits the memory that all request bodies of a server use together. A limit for each single body is not enough,
 * because many connections together could use many times that limit. Counts the bytes that have arrived, not those
 * that a client has announced, so that clients that send nothing do not use up the limit.
 *
 * No sender can use up the limit alone: the bodies of a group of senders may have at most as many bytes as they leave
 * free. So the first one may have half of the limit, a second one then a third, and there is always something left. The
 * same applies to the members of a group in the bytes that the group may have.
 */
export class BodyBudget {
  readonly #options: BodyBudgetOptions;
  readonly #bodies = new Set<CountedBody>();
  #bytes = 0;

  constructor(options: BodyBudgetOptions) {
    this.#options = options;
  }

  /**
   * Returns a stream of the same data. The stream fails as soon as the limit or the sender's share is exceeded, but the
   * connection stays open. The caller must call `release` when the body is not in memory any more. `findSender` must
   * not reject.
   */
  count(
    data: Readable,
    findSender: () => Promise<Sender>,
  ): { readonly stream: Readable; readonly release: () => void } {
    const body: CountedBody = { bytes: 0, findSender };
    this.#bodies.add(body);
    const release = () => {
      this.#bodies.delete(body);
      this.#bytes -= body.bytes;
      body.bytes = 0;
    };
    const stream = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        const accept = () => {
          // The caller has released the body already, and would not release more bytes.
          if (!this.#bodies.has(body)) return done(null, chunk);
          if (this.#exceeds(body, chunk.length)) {
            release();
            return done(this.#options.createError());
          }
          body.bytes += chunk.length;
          this.#bytes += chunk.length;
          done(null, chunk);
        };
        if (this.#areSharesKept(chunk.length)) accept();
        else void this.#lookUpSenders(body).then(accept);
      },
    });
    // If no parser reads the body, for example because the response was sent first, the stream has no other
    // listener for errors, and an error without a listener would end the process.
    stream.on("error", () => {});
    data.once("error", (error) => stream.destroy(error));
    data.pipe(stream);
    return { stream, release };
  }

  /** Returns true if no sender can exceed its share with `bytes` more. */
  #areSharesKept(bytes: number): boolean {
    return this.#bytes + bytes <= this.#options.bytesMax / 2 ** GROUPS_MAX;
  }

  /** Looks up the senders of `body` and of all bodies of which something has arrived. */
  async #lookUpSenders(body: CountedBody): Promise<void> {
    for (;;) {
      const unknown = [...this.#bodies].filter(
        (one) => one.knownSender === undefined && (one === body || one.bytes > 0),
      );
      if (unknown.length === 0) return;
      await Promise.all(
        unknown.map(async (one) => {
          one.sender ??= one.findSender();
          one.knownSender = await one.sender;
        }),
      );
    }
  }

  /** Returns true if `bytes` more of `body` would exceed the limit or the share of the body's sender. */
  #exceeds(body: CountedBody, bytes: number): boolean {
    let usableBytes = this.#options.bytesMax;
    let used = this.#bytes + bytes;
    if (used > usableBytes) return true;
    if (this.#areSharesKept(bytes)) return false;
    let members = [...this.#bodies];
    for (const [level, group] of (body.knownSender ?? []).entries()) {
      members = members.filter(({ knownSender }) => knownSender?.[level] === group);
      const own = members.reduce((sum, member) => sum + member.bytes, bytes);
      usableBytes = (usableBytes - (used - own)) / 2;
      if (own > usableBytes) return true;
      used = own;
    }
    return false;
  }
}
