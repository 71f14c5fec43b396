import { type Caller, ownerKey, sandboxedApp } from "../caller.ts";

/**
 * A fair concurrency limit for queries. The next slot goes to a query of the owner with the fewest running queries, so
 * that a program with many queries cannot delay the single query of another program. Sandboxed apps, which are one
 * owner each, together do not use all slots.
 */
export class QuerySlots {
  readonly #limits: { readonly slots: number; readonly sandboxed: number };
  /** The number of running queries by owner. */
  readonly #running = new Map<string, number>();
  /** The waiting queries in the order of their arrival. */
  readonly #waiting: WaitingQuery[] = [];
  #used = 0;
  #usedSandboxed = 0;

  /** `slots` is the number of queries that may run, `sandboxed` the number of those that sandboxed apps may have. */
  constructor(limits: { readonly slots: number; readonly sandboxed: number }) {
    this.#limits = limits;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  get usedCount(): number {
    return this.#used;
  }

  /** Resolves when a slot is free; rejects with the signal's reason. */
  async acquire(caller: Caller, signal: AbortSignal): Promise<QuerySlot> {
    const owner = { key: ownerKey(caller), isSandboxed: sandboxedApp(caller) !== undefined };
    await this.#waitForSlot(owner, false, signal);
    return new QuerySlot({
      reacquire: () => this.#waitForSlot(owner, true, signal),
      release: () => this.#release(owner),
    });
  }

  #waitForSlot(owner: Owner, hasBegun: boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(signal.reason);
      };
      const start = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const waiting: WaitingQuery = { owner, hasBegun, start };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.push(waiting);
      this.#startWaiting();
    });
  }

  #release({ key, isSandboxed }: Owner): void {
    this.#used -= 1;
    if (isSandboxed) this.#usedSandboxed -= 1;
    const running = this.#countRunning(key) - 1;
    if (running === 0) this.#running.delete(key);
    else this.#running.set(key, running);
    this.#startWaiting();
  }

  #startWaiting(): void {
    while (this.#used < this.#limits.slots) {
      const next = this.#next();
      if (!next) return;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      const { key, isSandboxed } = next.owner;
      this.#used += 1;
      if (isSandboxed) this.#usedSandboxed += 1;
      this.#running.set(key, this.#countRunning(key) + 1);
      next.start();
    }
  }

  #next(): WaitingQuery | undefined {
    let best: WaitingQuery | undefined;
    for (const waiting of this.#waiting)
      if (this.#mayStart(waiting) && (!best || this.#isBefore(waiting, best))) best = waiting;
    return best;
  }

  #mayStart({ owner }: WaitingQuery): boolean {
    return !owner.isSandboxed || this.#usedSandboxed < this.#limits.sandboxed;
  }

  /**
   * Returns true if `one` gets a slot before `other`. A query that resumes after a question has priority over new
   * queries.
   */
  #isBefore(one: WaitingQuery, other: WaitingQuery): boolean {
    if (one.hasBegun !== other.hasBegun) return one.hasBegun;
    return this.#countRunning(one.owner.key) < this.#countRunning(other.owner.key);
  }

  #countRunning(key: string): number {
    return this.#running.get(key) ?? 0;
  }
}

/** The program whose queries count together: a connection, or all connections of a sandboxed app. */
interface Owner {
  readonly key: string;
  readonly isSandboxed: boolean;
}

interface WaitingQuery {
  readonly owner: Owner;
  readonly hasBegun: boolean;
  readonly start: () => void;
}

/**
 * The permission of one query to run. The slot is released while the query waits for the user's answer, which may take
 * minutes.
 */
export class QuerySlot implements Disposable {
  readonly #reacquire: () => Promise<void>;
  readonly #release: () => void;
  #isHeld = true;

  constructor({ reacquire, release }: { reacquire: () => Promise<void>; release: () => void }) {
    this.#reacquire = reacquire;
    this.#release = release;
  }

  suspend(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#release();
  }

  /** Acquires the slot again after a question. Rejects with the reason of the query's signal. */
  async resume(): Promise<void> {
    if (this.#isHeld) return;
    await this.#reacquire();
    this.#isHeld = true;
  }

  [Symbol.dispose](): void {
    this.suspend();
  }
}
