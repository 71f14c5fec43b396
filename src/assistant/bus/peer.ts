import { setMaxListeners } from "node:events";
import type { Clock } from "../../base/clock.ts";
import { type RateLimit, TokenBucket } from "../../base/token-bucket.ts";
import type { Caller } from "../caller.ts";
import { BusReplyError } from "./bus-reply-error.ts";

/** What one connection may ask for. */
export interface PeerLimits {
  readonly calls: RateLimit;
  /** Calls that run at the same time. */
  readonly runningMax: number;
  /** Bodies of calls that wait or run, together. */
  readonly heldBytesMax: number;
}

/** A connection that has called, until it leaves the bus. */
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
    // Every call under way listens: many of them are no leak.
    setMaxListeners(0, this.#disconnected.signal);
  }

  /** Aborts when the connection goes away, and when the daemon ends. */
  get signal(): AbortSignal {
    return this.#disconnected.signal;
  }

  /** Throws BusFault `LimitsExceeded` where the connection calls too fast. */
  checkRate(): void {
    if (this.#bucket.tryConsume()) return;
    const { perSecond } = this.#limits.calls;
    throw new BusReplyError("LimitsExceeded", `more than ${perSecond} calls a second: slow down`);
  }

  /** Asked once; again where the bus did not answer. Rejects as `identify` does. */
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

  /** Keeps a body until it is disposed. Throws BusFault `LimitsExceeded` where the connection has too many. */
  reserveBytes(bytes: number): Disposable {
    if (this.#heldBytes + bytes > this.#limits.heldBytesMax) {
      throw new BusReplyError("LimitsExceeded", "too much has been sent that is not answered yet");
    }
    this.#heldBytes += bytes;
    return { [Symbol.dispose]: () => (this.#heldBytes -= bytes) };
  }

  /** Runs until it is disposed. Throws BusFault `LimitsExceeded` where as many run as may. */
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
