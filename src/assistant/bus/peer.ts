import { setMaxListeners } from "node:events";
import type { Clock } from "../../base/clock.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import { BusReplyError } from "./bus-reply-error.ts";
import { type CallerLimits, CallerUsage, type SharedUsage } from "./caller-usage.ts";

/**
 * A connection that has called the daemon, until it disconnects. Each call counts for the connection when it arrives.
 * If the caller turns out to be a sandboxed app, the call also counts for that app.
 */
export class Peer {
  readonly connection: string;
  readonly #disconnected = new AbortController();
  readonly #identify: () => Promise<Caller>;
  readonly #usage: CallerUsage;
  readonly #shared: SharedUsage;
  #identity: Promise<Caller> | undefined;
  #isIdentified = false;
  /** The total size of the bodies of calls that arrived before this connection was identified. */
  #unidentifiedBytes = 0;
  #appUsage: CallerUsage | undefined;

  constructor(options: {
    readonly connection: string;
    readonly limits: CallerLimits;
    readonly shared: SharedUsage;
    readonly clock: Clock;
    readonly identify: (signal: AbortSignal) => Promise<Caller>;
  }) {
    this.connection = options.connection;
    this.#usage = new CallerUsage(options.limits, options.clock, "connection");
    this.#shared = options.shared;
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
    this.#usage.checkRate();
  }

  /**
   * Identifies the caller and caches the result. An error of the bus is not cached, so the next call tries again.
   * Rejects like `identify`.
   */
  caller(): Promise<Caller> {
    this.#identity ??= this.#identifyOnce();
    return this.#identity;
  }

  /**
   * Reserves memory for the body of a call until the returned object is disposed. Throws BusReplyError `LimitsExceeded`
   * if the bodies of this connection's calls would need too much memory.
   */
  reserveBytes(bytes: number): Disposable {
    const held = this.#usage.reserveBytes(bytes);
    const isCounted = !this.#isIdentified;
    if (isCounted) {
      try {
        this.#shared.addUnidentified(bytes);
      } catch (error) {
        held[Symbol.dispose]();
        throw error;
      }
      this.#unidentifiedBytes += bytes;
    }
    return {
      [Symbol.dispose]: () => {
        held[Symbol.dispose]();
        if (isCounted && !this.#isIdentified) this.#removeUnidentified(bytes);
      },
    };
  }

  /**
   * Counts a call also for the caller's app: its rate and, until the returned object is disposed, the size of its body.
   * Call it after the caller is identified. Throws BusReplyError `LimitsExceeded` if the app makes too many calls, or if
   * their bodies would need too much memory.
   */
  countForApp(bytes: number): Disposable | undefined {
    this.#appUsage?.checkRate();
    return this.#appUsage?.reserveBytes(bytes);
  }

  /**
   * Counts a running call until the returned object is disposed. Throws BusReplyError `LimitsExceeded` if too many calls
   * of the connection, or of its app, run.
   */
  startCall(): Disposable {
    const own = this.#usage.startCall();
    try {
      const shared = this.#appUsage?.startCall();
      return {
        [Symbol.dispose]: () => {
          own[Symbol.dispose]();
          shared?.[Symbol.dispose]();
        },
      };
    } catch (error) {
      own[Symbol.dispose]();
      throw error;
    }
  }

  disconnect(reason: Error): void {
    this.#disconnected.abort(reason);
  }

  async #identifyOnce(): Promise<Caller> {
    try {
      const caller = await this.#identify();
      const app = sandboxedApp(caller);
      if (app !== undefined) this.#appUsage = this.#shared.ofApp(app);
      this.#isIdentified = true;
      this.#removeUnidentified(this.#unidentifiedBytes);
      return caller;
    } catch (error) {
      if (!(error instanceof BusReplyError)) this.#identity = undefined;
      throw error;
    }
  }

  #removeUnidentified(bytes: number): void {
    this.#shared.removeUnidentified(bytes);
    this.#unidentifiedBytes -= bytes;
  }
}
