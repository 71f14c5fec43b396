import { type Clock, delay } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";

const WINDOW_MS = 60_000;
const FAILURES_MAX = 5;
/**
 * The maximum number of tracked addresses. Above it, the least recently used addresses are forgotten, and may try
 * again. Far fewer clients than this are expected to guess passwords within a minute.
 */
const ADDRESSES_MAX = 10_000;
/** The number of wrong attempts of all addresses in a window before further attempts are delayed. */
const TOTAL_UNDELAYED = 50;
const DELAY_STEP_MS = 100;
const DELAY_MAX_MS = 5_000;
const TOTAL_COUNTED_MAX = TOTAL_UNDELAYED + DELAY_MAX_MS / DELAY_STEP_MS;

interface Attempts {
  failedAtMs: number[];
  pending: number;
}

/**
 * Allows each address five wrong passwords or signatures a minute. Attempts in progress count too: otherwise a
 * hundred of them could start before the first one fails. Many wrong attempts from many addresses delay every
 * attempt, but refuse none: otherwise an attacker could lock the owner out.
 */
export class AttemptLimiter {
  readonly #clock: Clock;
  readonly #failureNoun: string;
  #failedAtMs: number[] = [];
  readonly #byAddress = new Map<string, Attempts>();

  /** `what` completes the message "too many ... from this address". */
  constructor(clock: Clock, what = "wrong passwords") {
    this.#clock = clock;
    this.#failureNoun = what;
  }

  /**
   * Counts a new authentication attempt from `address`; the caller must call `end` with its outcome. Throws BerthError
   * `too_many_requests`.
   */
  begin(address: string): { end(succeeded: boolean): void } {
    const key = getNetwork(address);
    const nowMs = this.#clock.now();
    const attempts = this.#byAddress.get(key) ?? { failedAtMs: [], pending: 0 };
    attempts.failedAtMs = attempts.failedAtMs.filter((time) => time > nowMs - WINDOW_MS);
    if (attempts.failedAtMs.length + attempts.pending >= FAILURES_MAX) {
      const freeAtMs = (attempts.failedAtMs[0] ?? nowMs) + WINDOW_MS;
      const retryAfterSeconds = Math.max(1, Math.ceil((freeAtMs - nowMs) / 1000));
      throw new BerthError("too_many_requests", `too many ${this.#failureNoun} from this address`, {
        hint: `try again in ${retryAfterSeconds} seconds`,
        details: { retryAfterSeconds },
      });
    }
    attempts.pending += 1;
    // Deleting the entry first keeps the map ordered by last use.
    this.#byAddress.delete(key);
    this.#byAddress.set(key, attempts);
    this.#forgetOldest();
    return {
      end: (succeeded) => {
        attempts.pending -= 1;
        if (!succeeded) {
          attempts.failedAtMs.push(this.#clock.now());
          this.#failedAtMs.push(this.#clock.now());
        } else if (attempts.pending === 0 && attempts.failedAtMs.length === 0) {
          this.#byAddress.delete(key);
        }
      },
    };
  }

  /**
   * Resolves at once, or after up to five seconds if clients with many addresses guess passwords. The caller
   * awaits it before it calls `begin`.
   */
  async slowDown(signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.now();
    const recent = this.#failedAtMs.filter((time) => time > nowMs - WINDOW_MS);
    this.#failedAtMs = recent.slice(-TOTAL_COUNTED_MAX);
    const excess = Math.max(0, recent.length - TOTAL_UNDELAYED);
    const delayMs = Math.min(DELAY_MAX_MS, excess * DELAY_STEP_MS);
    if (delayMs > 0) await delay(this.#clock, delayMs, signal);
  }

  #forgetOldest(): void {
    for (const [key, attempts] of this.#byAddress) {
      if (this.#byAddress.size <= ADDRESSES_MAX) return;
      if (attempts.pending === 0) this.#byAddress.delete(key);
    }
  }
}

/** Returns the /64 network of an IPv6 address, because one customer usually has all addresses of such a network. */
function getNetwork(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped?.[1] !== undefined) return mapped[1];
  if (!address.includes(":")) return address;
  const [head = "", tail] = (address.split("%")[0] ?? "").split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  return [...before, ...Array<string>(zeros).fill("0"), ...after].slice(0, 4).join(":");
}
