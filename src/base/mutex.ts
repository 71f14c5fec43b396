/** Runs functions one at a time, in the order of the calls of `runExclusive`. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `work` when all earlier work has ended. Resolves or rejects as `work` does. */
  runExclusive<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work, work);
    this.#last = result.catch(() => {});
    return result;
  }

  /** Resolves when all work that was passed to `runExclusive` before this call has ended. Never rejects. */
  async waitUntilIdle(): Promise<void> {
    await this.#last;
  }
}

/** A mutex for each key; work of different keys runs concurrently. */
export class KeyedMutex {
  readonly #queues = new Map<string, { mutex: Mutex; pending: number }>();

  /** Runs `work` when all earlier work of the key has ended. Resolves or rejects as `work` does. */
  async runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(key) ?? { mutex: new Mutex(), pending: 0 };
    this.#queues.set(key, queue);
    queue.pending += 1;
    try {
      return await queue.mutex.runExclusive(work);
    } finally {
      queue.pending -= 1;
      if (queue.pending === 0) this.#queues.delete(key);
    }
  }

  /** Returns the number of `runExclusive` calls for this key that run or wait. */
  pending(key: string): number {
    return this.#queues.get(key)?.pending ?? 0;
  }

  /** Resolves when no work runs or waits. Never rejects. */
  async waitUntilIdle(): Promise<void> {
    while (this.#queues.size > 0) {
      const mutexes = [...this.#queues.values()].map(({ mutex }) => mutex.waitUntilIdle());
      await Promise.all(mutexes);
      // The entry of a key is removed by a `finally` that runs after the last work for the key has ended, so the loop
      // checks again for remaining keys.
      await Promise.resolve();
    }
  }
}

/** Runs at most `max` pieces of work at a time; further work starts in the order of the calls. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(max: number) {
    this.#free = max;
  }

  /** Runs `work` when fewer than `max` functions run. Resolves or rejects as `work` does. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}
