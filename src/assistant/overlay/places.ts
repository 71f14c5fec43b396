/**
 * So many queries run at a time. Of those that wait, the next one is of the connection that has the fewest
 * running, so that a program with many queries cannot keep another one's single query from its turn.
 */
export class Places {
  readonly #count: number;
  readonly #running = new Map<string, number>();
  /** In the order in which they came. */
  readonly #waiting: Waiting[] = [];
  #taken = 0;

  constructor(count: number) {
    this.#count = count;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Resolves when there is a place; rejects with the signal's reason. */
  async take(connection: string, signal: AbortSignal): Promise<Place> {
    await this.#enter(connection, false, signal);
    return new Place({
      enter: () => this.#enter(connection, true, signal),
      leave: () => this.#leave(connection),
    });
  }

  #enter(connection: string, hasBegun: boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(signal.reason);
      };
      const enter = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const waiting: Waiting = { connection, hasBegun, enter };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.push(waiting);
      this.#fill();
    });
  }

  #leave(connection: string): void {
    this.#taken -= 1;
    const running = this.#runningOf(connection) - 1;
    if (running === 0) this.#running.delete(connection);
    else this.#running.set(connection, running);
    this.#fill();
  }

  #fill(): void {
    while (this.#taken < this.#count) {
      const next = this.#next();
      if (!next) return;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      this.#taken += 1;
      this.#running.set(next.connection, this.#runningOf(next.connection) + 1);
      next.enter();
    }
  }

  #next(): Waiting | undefined {
    let best: Waiting | undefined;
    for (const waiting of this.#waiting) if (!best || this.#isBefore(waiting, best)) best = waiting;
    return best;
  }

  /** A query that has begun, and for which a person has just been asked, does not line up again. */
  #isBefore(one: Waiting, other: Waiting): boolean {
    if (one.hasBegun !== other.hasBegun) return one.hasBegun;
    return this.#runningOf(one.connection) < this.#runningOf(other.connection);
  }

  #runningOf(connection: string): number {
    return this.#running.get(connection) ?? 0;
  }
}

interface Waiting {
  readonly connection: string;
  readonly hasBegun: boolean;
  readonly enter: () => void;
}

/** One query's place. It is given back for as long as a person is asked, who may take minutes. */
export class Place implements Disposable {
  readonly #enter: () => Promise<void>;
  readonly #leave: () => void;
  #isTaken = true;

  constructor({ enter, leave }: { enter: () => Promise<void>; leave: () => void }) {
    this.#enter = enter;
    this.#leave = leave;
  }

  rest(): void {
    if (!this.#isTaken) return;
    this.#isTaken = false;
    this.#leave();
  }

  /** Rejects with the reason of the query's signal. */
  async resume(): Promise<void> {
    if (this.#isTaken) return;
    await this.#enter();
    this.#isTaken = true;
  }

  [Symbol.dispose](): void {
    this.rest();
  }
}
