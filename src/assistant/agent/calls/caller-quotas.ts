import type { Clock } from "../../../base/clock.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import { type CallRefusal, deniedRefusal } from "./planned-call.ts";

/** How much a caller may ask for. A program outside a sandbox is held back only where it runs wild. */
export interface CallLimits {
  /** Calls a second, and how many at once after a rest. */
  readonly sandboxed: { readonly perSecond: number; readonly burst: number };
  readonly unsandboxed: { readonly perSecond: number; readonly burst: number };
  /** Taken and not answered yet, parked ones left out; each may hold a megabyte. */
  readonly runningPerCaller: number;
  readonly parkedPerCaller: number;
  readonly parkedTotal: number;
}

export const defaultCallLimits: CallLimits = {
  sandboxed: { perSecond: 20, burst: 60 },
  unsandboxed: { perSecond: 1_000, burst: 2_000 },
  runningPerCaller: 64,
  parkedPerCaller: 16,
  parkedTotal: 64,
};

/** Reading and checking arguments takes time that nobody else gets: so many characters count as a call more. */
const CHARS_PER_EXTRA_CALL = 16 * 1024;

/** Callers that are remembered before those are dropped that have rested for long enough. */
const CALLERS_MAX = 1_024;

interface CallerUsage {
  tokens: number;
  /** When `tokens` was right. */
  atMs: number;
  running: number;
  parked: number;
  /** It has been told to slow down, and has not since. */
  isThrottled: boolean;
}

/** A refusal, and whether it is worth an entry in the ledger: a flood of calls must not be one of entries. */
export interface QuotaRefusal {
  readonly refusal: CallRefusal;
  readonly isFirst: boolean;
}

/** Counts what each caller asks for: a sandboxed app however many connections it has, else a connection. */
export class CallerQuotas {
  readonly #limits: CallLimits;
  readonly #clock: Clock;
  readonly #usages = new Map<string, CallerUsage>();
  #parked = 0;

  constructor(options: { readonly limits: CallLimits; readonly clock: Clock }) {
    this.#limits = options.limits;
    this.#clock = options.clock;
  }

  /** `chars` is how long the arguments are. Undefined: the call is taken, and `leave` has to follow. */
  startCall(caller: Caller, chars: number): QuotaRefusal | undefined {
    const { perSecond, burst } = this.#rate(caller);
    const cost = Math.min(burst, 1 + Math.floor(chars / CHARS_PER_EXTRA_CALL));
    const account = this.#getUsage(caller, burst);
    const now = this.#clock.now();
    const gained = (Math.max(0, now - account.atMs) / 1_000) * perSecond;
    account.tokens = Math.min(burst, account.tokens + gained);
    account.atMs = now;
    const message =
      account.tokens < cost
        ? `more than ${perSecond} calls a second, of which large ones count more; wait a moment, then try again`
        : account.running >= this.#limits.runningPerCaller
          ? `${account.running} calls of this caller are under way; wait for one to end`
          : undefined;
    if (message !== undefined) {
      const isFirst = !account.isThrottled;
      account.isThrottled = true;
      return { refusal: deniedRefusal("rate_limited", message), isFirst };
    }
    account.tokens -= cost;
    account.running += 1;
    account.isThrottled = false;
    return undefined;
  }

  endCall(caller: Caller): void {
    this.#getUsage(caller, 0).running -= 1;
  }

  /** Undefined: it has a place, and `unpark` has to follow. */
  park(caller: Caller): CallRefusal | undefined {
    const account = this.#getUsage(caller, this.#rate(caller).burst);
    const { parkedPerCaller, parkedTotal: parked } = this.#limits;
    if (account.parked >= parkedPerCaller)
      return deniedRefusal(
        "too_many_parked",
        `${account.parked} calls of this caller wait for confirmation already; answer one of them first`,
      );
    if (this.#parked >= parked)
      return deniedRefusal(
        "too_many_parked",
        `${this.#parked} calls wait for confirmation already; answer one of them first`,
      );
    account.parked += 1;
    this.#parked += 1;
    return undefined;
  }

  unpark(caller: Caller): void {
    this.#getUsage(caller, 0).parked -= 1;
    this.#parked -= 1;
  }

  #rate(caller: Caller): CallLimits["sandboxed"] {
    return sandboxedApp(caller) === undefined ? this.#limits.unsandboxed : this.#limits.sandboxed;
  }

  #getUsage(caller: Caller, burst: number): CallerUsage {
    const app = sandboxedApp(caller);
    const key = app === undefined ? caller.connection : `app:${app}`;
    const known = this.#usages.get(key);
    if (known) return known;
    if (this.#usages.size >= CALLERS_MAX) this.#dropIdle();
    const account = {
      tokens: burst,
      atMs: this.#clock.now(),
      running: 0,
      parked: 0,
      isThrottled: false,
    };
    this.#usages.set(key, account);
    return account;
  }

  /** Who has asked for nothing in a minute starts afresh: its tokens are back by then. */
  #dropIdle(): void {
    const before = this.#clock.now() - 60_000;
    for (const [key, { atMs, running: underWay, parked }] of this.#usages) {
      if (atMs < before && underWay === 0 && parked === 0) this.#usages.delete(key);
    }
  }
}
