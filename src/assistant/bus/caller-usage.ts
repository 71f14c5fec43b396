import type { Clock } from "../../base/clock.ts";
import { type RateLimit, TokenBucket } from "../../base/token-bucket.ts";
import { BusReplyError } from "./bus-reply-error.ts";

/** Limits for the method calls of one connection, and for those of all connections of one sandboxed app together. */
export interface CallerLimits {
  readonly calls: RateLimit;
  /** The maximum number of calls that may run at the same time. */
  readonly runningMax: number;
  /** Largest total size of the bodies of waiting and running calls. */
  readonly heldBytesMax: number;
}

/** Counts the method calls of one connection, or of one sandboxed app. Each method throws BusReplyError `LimitsExceeded`. */
export class CallerUsage {
  readonly #limits: CallerLimits;
  readonly #bucket: TokenBucket;
  readonly #who: string;
  #running = 0;
  #heldBytes = 0;

  constructor(limits: CallerLimits, clock: Clock, who: "app" | "connection") {
    this.#limits = limits;
    this.#bucket = new TokenBucket(limits.calls, clock);
    this.#who = who;
  }

  get isIdle(): boolean {
    return this.#running === 0 && this.#heldBytes === 0;
  }

  checkRate(): void {
    if (this.#bucket.tryConsume()) return;
    const { perSecond } = this.#limits.calls;
    throw new BusReplyError(
      "LimitsExceeded",
      `more than ${perSecond} calls a second: send fewer calls`,
    );
  }

  /** Reserves memory for the body of a call until the returned object is disposed. */
  reserveBytes(bytes: number): Disposable {
    if (this.#heldBytes + bytes > this.#limits.heldBytesMax) throw tooManyBytesError();
    this.#heldBytes += bytes;
    return { [Symbol.dispose]: () => (this.#heldBytes -= bytes) };
  }

  /** Counts a running call until the returned object is disposed. */
  startCall(): Disposable {
    if (this.#running >= this.#limits.runningMax) {
      throw new BusReplyError(
        "LimitsExceeded",
        `${this.#limits.runningMax} calls of this ${this.#who} are running: wait for one of them`,
      );
    }
    this.#running += 1;
    return { [Symbol.dispose]: () => (this.#running -= 1) };
  }
}

/**
 * The number of sandboxed apps whose calls are counted at the same time. When this number is reached, apps without a
 * running call are forgotten.
 */
const APPS_MAX = 256;

/**
 * The counts that connections share: those of sandboxed apps, because an app can open as many connections as it likes, and
 * the memory for calls of connections that are not identified yet.
 */
export class SharedUsage {
  readonly #createUsage: () => CallerUsage;
  readonly #unidentifiedBytesMax: number;
  readonly #apps = new Map<string, CallerUsage>();
  #unidentifiedBytes = 0;

  constructor(limits: CallerLimits, clock: Clock) {
    this.#createUsage = () => new CallerUsage(limits, clock, "app");
    // The limit is twice that of one connection. An app that opens many connections cannot use it up for long, because
    // each connection is identified within a few milliseconds and then no longer counts.
    this.#unidentifiedBytesMax = 2 * limits.heldBytesMax;
  }

  ofApp(app: string): CallerUsage {
    let usage = this.#apps.get(app);
    if (!usage) {
      if (this.#apps.size >= APPS_MAX) this.#dropIdle();
      this.#apps.set(app, (usage = this.#createUsage()));
    }
    return usage;
  }

  /** Throws BusReplyError `LimitsExceeded` if the calls of unidentified connections would need too much memory. */
  addUnidentified(bytes: number): void {
    if (this.#unidentifiedBytes + bytes > this.#unidentifiedBytesMax) throw tooManyBytesError();
    this.#unidentifiedBytes += bytes;
  }

  removeUnidentified(bytes: number): void {
    this.#unidentifiedBytes -= bytes;
  }

  #dropIdle(): void {
    for (const [app, usage] of this.#apps) if (usage.isIdle) this.#apps.delete(app);
  }
}

function tooManyBytesError(): BusReplyError {
  return new BusReplyError(
    "LimitsExceeded",
    "too many bytes of unanswered calls: wait for an answer",
  );
}
