import type { Clock } from "../../../base/clock.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import { denied, type Refusal } from "./planned-call.ts";

/** How much a caller may ask for. A program outside a sandbox is held back only where it runs wild. */
export interface CallLimits {
  /** Calls a second, and how many at once after a rest. */
  readonly sandboxed: { readonly perSecond: number; readonly burst: number };
  readonly unsandboxed: { readonly perSecond: number; readonly burst: number };
  /** Taken and not answered yet, parked ones left out; each may hold a megabyte. */
  readonly underWayPerCaller: number;
  readonly parkedPerCaller: number;
  readonly parked: number;
}

export const callLimits: CallLimits = {
  sandboxed: { perSecond: 20, burst: 60 },
  unsandboxed: { perSecond: 1_000, burst: 2_000 },
  underWayPerCaller: 64,
  parkedPerCaller: 16,
  parked: 64,
};

/** Reading and checking arguments takes time that nobody else gets: so many characters count as a call more. */
const CHARS_PER_CALL = 16 * 1024;

/** Callers that are remembered before those are dropped that have rested for long enough. */
const CALLERS_MAX = 1_024;

interface Account {
  tokens: number;
  /** When `tokens` was right. */
  atMs: number;
  underWay: number;
  parked: number;
  /** It has been told to slow down, and has not since. */
  isOver: boolean;
}

/** A refusal, and whether it is worth an entry in the ledger: a flood of calls must not be one of entries. */
export interface Held {
  readonly refusal: Refusal;
  readonly isFirst: boolean;
}

/** Counts what each caller asks for: a sandboxed app however many connections it has, else a connection. */
export class Admission {
  readonly #limits: CallLimits;
  readonly #clock: Clock;
  readonly #accounts = new Map<string, Account>();
  #parked = 0;

  constructor(options: { readonly limits: CallLimits; readonly clock: Clock }) {
    this.#limits = options.limits;
    this.#clock = options.clock;
  }

  /** `chars` is how long the arguments are. Undefined: the call is taken, and `leave` has to follow. */
  enter(caller: Caller, chars: number): Held | undefined {
    const { perSecond, burst } = this.#rate(caller);
    const cost = Math.min(burst, 1 + Math.floor(chars / CHARS_PER_CALL));
    const account = this.#account(caller, burst);
    const now = this.#clock.now();
    const gained = (Math.max(0, now - account.atMs) / 1_000) * perSecond;
    account.tokens = Math.min(burst, account.tokens + gained);
    account.atMs = now;
    const message =
      account.tokens < cost
        ? `more than ${perSecond} calls a second, of which large ones count more; wait a moment, then try again`
        : account.underWay >= this.#limits.underWayPerCaller
          ? `${account.underWay} calls of this caller are under way; wait for one to end`
          : undefined;
    if (message !== undefined) {
      const isFirst = !account.isOver;
      account.isOver = true;
      return { refusal: denied("rate_limited", message), isFirst };
    }
    account.tokens -= cost;
    account.underWay += 1;
    account.isOver = false;
    return undefined;
  }

  leave(caller: Caller): void {
    this.#account(caller, 0).underWay -= 1;
  }

  /** Undefined: it has a place, and `unpark` has to follow. */
  park(caller: Caller): Refusal | undefined {
    const account = this.#account(caller, this.#rate(caller).burst);
    const { parkedPerCaller, parked } = this.#limits;
    if (account.parked >= parkedPerCaller)
      return denied(
        "too_many_parked",
        `${account.parked} calls of this caller wait for confirmation already; answer one of them first`,
      );
    if (this.#parked >= parked)
      return denied(
        "too_many_parked",
        `${this.#parked} calls wait for confirmation already; answer one of them first`,
      );
    account.parked += 1;
    this.#parked += 1;
    return undefined;
  }

  unpark(caller: Caller): void {
    this.#account(caller, 0).parked -= 1;
    this.#parked -= 1;
  }

  #rate(caller: Caller): CallLimits["sandboxed"] {
    return sandboxedApp(caller) === undefined ? this.#limits.unsandboxed : this.#limits.sandboxed;
  }

  #account(caller: Caller, burst: number): Account {
    const app = sandboxedApp(caller);
    const key = app === undefined ? caller.connection : `app:${app}`;
    const known = this.#accounts.get(key);
    if (known) return known;
    if (this.#accounts.size >= CALLERS_MAX) this.#dropRested();
    const account = {
      tokens: burst,
      atMs: this.#clock.now(),
      underWay: 0,
      parked: 0,
      isOver: false,
    };
    this.#accounts.set(key, account);
    return account;
  }

  /** Who has asked for nothing in a minute starts afresh: its tokens are back by then. */
  #dropRested(): void {
    const before = this.#clock.now() - 60_000;
    for (const [key, { atMs, underWay, parked }] of this.#accounts) {
      if (atMs < before && underWay === 0 && parked === 0) this.#accounts.delete(key);
    }
  }
}
