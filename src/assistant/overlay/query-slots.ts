/**
 * A fair concurrency limit for queries. The next slot goes to a query of the connection with the fewest running
 * queries, so that a program with many queries cannot delay the single query of another program.
 */
export class QuerySlots {
  readonly #capacity: number;
  readonly #running = new Map<string, number>();
  /** The waiting queries in the order of their arrival. */
  readonly #waiting: WaitingQuery[] = [];
  #used = 0;

  constructor(count: number) {
    this.#capacity = count;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  get usedCount(): number {
    return this.#used;
  }

  /** Resolves when a slot is free; rejects with the signal's reason. */
  async acquire(connection: string, signal: AbortSignal): Promise<QuerySlot> {
    await this.#waitForSlot(connection, false, signal);
    return new QuerySlot({
      reacquire: () => this.#waitForSlot(connection, true, signal),
      release: () => this.#release(connection),
    });
  }

  #waitForSlot(connection: string, hasBegun: boolean, signal: AbortSignal): Promise<void> {
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
      const waiting: WaitingQuery = { connection, hasBegun, start };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.push(waiting);
      this.#startWaiting();
    });
  }

  #release(connection: string): void {
    this.#used -= 1;
    const running = this.#countRunning(connection) - 1;
    if (running === 0) this.#running.delete(connection);
    else this.#running.set(connection, running);
    this.#startWaiting();
  }

  #startWaiting(): void {
    while (this.#used < this.#capacity) {
      const next = this.#next();
      if (!next) return;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      this.#used += 1;
      this.#running.set(next.connection, this.#countRunning(next.connection) + 1);
      next.start();
    }
  }

  #next(): WaitingQuery | undefined {
    let best: WaitingQuery | undefined;
    for (const waiting of this.#waiting) if (!best || this.#isBefore(waiting, best)) best = waiting;
    return best;
  }

  /**
   * Returns true if `one` gets a slot before `other`. A query that resumes after a question has priority over new
   * queries.
   */
  #isBefore(one: WaitingQuery, other: WaitingQuery): boolean {
    if (one.hasBegun !== other.hasBegun) return one.hasBegun;
    return this.#countRunning(one.connection) < this.#countRunning(other.connection);
  }

  #countRunning(connection: string): number {
    return this.#running.get(connection) ?? 0;
  }
}

interface WaitingQuery {
  readonly connection: string;
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
