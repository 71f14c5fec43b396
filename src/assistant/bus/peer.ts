import { setMaxListeners } from "node:events";
import type { Clock } from "../../base/clock.ts";
import { type RateLimit, TokenBucket } from "../../base/token-bucket.ts";
import type { Caller } from "../caller.ts";
import { BusReplyError } from "./bus-reply-error.ts";

/** Limits for the method calls of one bus connection. */
export interface PeerLimits {
  readonly calls: RateLimit;
  /** The maximum number of calls of the connection that may run at the same time. */
  readonly runningMax: number;
  /** Largest total size of the bodies of waiting and running calls. */
  readonly heldBytesMax: number;
}

/** A connection that has called the daemon, until it disconnects. */
export class Peer {
  readonly connection: string;
  readonly #limits: PeerLimits;
  readonly #bucket: TokenBucket;
  readonly #disconnected = new AbortController();
  readonly #identify: () => Promise<Caller>;
  #identity: Promise<Caller> | undefined;
  #running = 0;
  #heldBytes = 0;

  constructor(options: {
    readonly connection: string;
    readonly limits: PeerLimits;
    readonly clock: Clock;
    readonly identify: (signal: AbortSignal) => Promise<Caller>;
  }) {
    this.connection = options.connection;
    this.#limits = options.limits;
    this.#bucket = new TokenBucket(options.limits.calls, options.clock);
    this.#identify = () => options.identify(this.#disconnected.signal);
    // Each running call adds a listener to the signal, so the default warning at ten listeners does not apply.
    setMaxListeners(0, this.#disconnected.signal);
  }

  /** Aborts when the connection closes or the daemon shuts down. */
  get signal(): AbortSignal {
    return this.#disconnected.signal;
  }

  /** Throws BusReplyError `LimitsExceeded` if the connection exceeds its call rate. */
  checkRate(): void {
    if (this.#bucket.tryConsume()) return;
    const { perSecond } = this.#limits.calls;
    throw new BusReplyError("LimitsExceeded", `more than ${perSecond} calls a second: slow down`);
  }

  /**
   * Identifies the caller and caches the result. An error of the bus is not cached, so the next call tries again.
   * Rejects like `identify`.
   */
  caller(): Promise<Caller> {
    if (!this.#identity) {
      const identity = this.#identify();
      this.#identity = identity;
      identity.catch((error: unknown) => {
        if (!(error instanceof BusReplyError)) this.#identity = undefined;
      });
    }
    return this.#identity;
  }

  /**
   * Reserves memory for the body of a call until the returned object is disposed. Throws BusReplyError `LimitsExceeded`
   * if the bodies of this connection's calls would need too much memory.
   */
  reserveBytes(bytes: number): Disposable {
    if (this.#heldBytes + bytes > this.#limits.heldBytesMax) {
      throw new BusReplyError(
        "LimitsExceeded",
        "too many bytes of unanswered calls: wait for an answer",
      );
    }
    this.#heldBytes += bytes;
    return { [Symbol.dispose]: () => (this.#heldBytes -= bytes) };
  }

  /**
   * Counts a running call until the returned object is disposed. Throws BusReplyError `LimitsExceeded` if too many
   * calls run.
   */
  startCall(): Disposable {
    if (this.#running >= this.#limits.runningMax) {
      throw new BusReplyError(
        "LimitsExceeded",
        `${this.#limits.runningMax} calls of this connection are running: wait for one of them`,
      );
    }
    this.#running += 1;
    return { [Symbol.dispose]: () => (this.#running -= 1) };
  }

  disconnect(reason: Error): void {
    this.#disconnected.abort(reason);
  }
}
