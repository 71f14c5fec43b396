import type { Clock } from "../../../base/clock.ts";
import { type Caller, ownerKey, sandboxedApp } from "../../caller.ts";
import { type CallRefusal, deniedRefusal } from "./planned-call.ts";

/** Limits per caller. Programs outside a sandbox have limits that only a runaway program reaches. */
export interface CallLimits {
  /**
   * The rate limit of a sandboxed app, as a token bucket: `perSecond` is the sustained rate, `burst` the number of
   * calls that may come at once after a pause.
   */
  readonly sandboxed: { readonly perSecond: number; readonly burst: number };
  readonly unsandboxed: { readonly perSecond: number; readonly burst: number };
  /**
   * The maximum number of running calls of one caller; parked calls do not count. The number is limited because the
   * arguments of each call can take up to a megabyte.
   */
  readonly runningPerCaller: number;
  readonly parkedPerCaller: number;
  readonly parkedTotal: number;
  /** The maximum number of calls of all sandboxed apps that wait. The rest of `parkedTotal` is for the user's programs. */
  readonly parkedSandboxed: number;
}

export const defaultCallLimits: CallLimits = {
  sandboxed: { perSecond: 20, burst: 60 },
  unsandboxed: { perSecond: 1_000, burst: 2_000 },
  runningPerCaller: 64,
  parkedPerCaller: 16,
  parkedTotal: 64,
  parkedSandboxed: 48,
};

/**
 * Arguments are charged against the rate limit, because parsing and checking them blocks the event loop: every 16 Ki
 * characters count as one more call.
 */
const CHARS_PER_EXTRA_CALL = 16 * 1024;

/** As soon as this number of callers is known, callers without a recent call are forgotten. */
const CALLERS_MAX = 1_024;

interface CallerUsage {
  tokens: number;
  /** Time at which `tokens` was computed, in milliseconds. */
  atMs: number;
  running: number;
  parked: number;
  /** True if the last call of this caller exceeded the rate limit or the limit of running calls. */
  isThrottled: boolean;
}

/**
 * `isFirst` is true for the first refusal of a burst, the only one that the ledger records: a flood of calls must
 * not flood the ledger.
 */
export interface QuotaRefusal {
  readonly refusal: CallRefusal;
  readonly isFirst: boolean;
}

/**
 * Counts the calls of each caller. All connections of a sandboxed app count as one caller; for other programs each
 * connection is a caller.
 */
export class CallerQuotas {
  readonly #limits: CallLimits;
  readonly #clock: Clock;
  readonly #usages = new Map<string, CallerUsage>();
  #parked = 0;
  #parkedSandboxed = 0;

  constructor(options: { readonly limits: CallLimits; readonly clock: Clock }) {
    this.#limits = options.limits;
    this.#clock = options.clock;
  }

  /**
   * Counts a new call whose arguments have `chars` characters. Returns a refusal if the call is not accepted; otherwise
   * the caller of this method must call `endCall` later.
   */
  startCall(caller: Caller, chars: number): QuotaRefusal | undefined {
    const { perSecond, burst } = this.#rate(caller);
    const cost = Math.min(burst, 1 + Math.floor(chars / CHARS_PER_EXTRA_CALL));
    const usage = this.#getUsage(caller, burst);
    const now = this.#clock.now();
    const gained = (Math.max(0, now - usage.atMs) / 1_000) * perSecond;
    usage.tokens = Math.min(burst, usage.tokens + gained);
    usage.atMs = now;
    const message =
      usage.tokens < cost
        ? `more than ${perSecond} calls a second (large calls count several times); wait a moment, then try again`
        : usage.running >= this.#limits.runningPerCaller
          ? `${usage.running} calls of this caller are running; wait for one to end`
          : undefined;
    if (message !== undefined) {
      const isFirst = !usage.isThrottled;
      usage.isThrottled = true;
      return { refusal: deniedRefusal("rate_limited", message), isFirst };
    }
    usage.tokens -= cost;
    usage.running += 1;
    usage.isThrottled = false;
    return undefined;
  }

  endCall(caller: Caller): void {
    this.#getUsage(caller, 0).running -= 1;
  }

  /**
   * Counts a call that waits for confirmation (a parked call). Returns a refusal if too many calls wait; otherwise
   * `unpark` must be called when the call no longer waits.
   */
  park(caller: Caller): CallRefusal | undefined {
    const usage = this.#getUsage(caller, this.#rate(caller).burst);
    const { parkedPerCaller, parkedTotal, parkedSandboxed } = this.#limits;
    const isSandboxed = sandboxedApp(caller) !== undefined;
    if (usage.parked >= parkedPerCaller)
      return deniedRefusal(
        "too_many_parked",
        `${usage.parked} calls of this caller already wait for confirmation; answer one of them first`,
      );
    if (this.#parked >= parkedTotal || (isSandboxed && this.#parkedSandboxed >= parkedSandboxed))
      return deniedRefusal(
        "too_many_parked",
        `${this.#parked} calls already wait for confirmation; answer one of them first`,
      );
    usage.parked += 1;
    this.#parked += 1;
    if (isSandboxed) this.#parkedSandboxed += 1;
    return undefined;
  }

  unpark(caller: Caller): void {
    this.#getUsage(caller, 0).parked -= 1;
    this.#parked -= 1;
    if (sandboxedApp(caller) !== undefined) this.#parkedSandboxed -= 1;
  }

  #rate(caller: Caller): CallLimits["sandboxed"] {
    return sandboxedApp(caller) === undefined ? this.#limits.unsandboxed : this.#limits.sandboxed;
  }

  #getUsage(caller: Caller, burst: number): CallerUsage {
    const key = ownerKey(caller);
    const known = this.#usages.get(key);
    if (known) return known;
    if (this.#usages.size >= CALLERS_MAX) this.#dropIdle();
    const usage = {
      tokens: burst,
      atMs: this.#clock.now(),
      running: 0,
      parked: 0,
      isThrottled: false,
    };
    this.#usages.set(key, usage);
    return usage;
  }

  /** Forgets callers that made no call for a minute: their token buckets are full again, so no state is lost. */
  #dropIdle(): void {
    const before = this.#clock.now() - 60_000;
    for (const [key, { atMs, running: underWay, parked }] of this.#usages) {
      if (atMs < before && underWay === 0 && parked === 0) this.#usages.delete(key);
    }
  }
}
