import type { Clock } from "../base/clock.ts";

/** A person's action before a spec change before an engine event before a resync. */
export const priorities = { user: 0, spec: 1, event: 2, resync: 3 } as const;
export type ReconcilePriority = keyof typeof priorities;

/**
 * What one step of priority is worth in waiting time: a resync that has waited 6 s goes before a
 * person's action of now, so that nothing starves.
 */
const PRIORITY_STEP_MS = 2_000;

/**
 * The queue of keys that want a look, as in client-go: a key is handed to one worker at a time, a
 * key added while it is being worked on runs once more afterwards, and any number of additions
 * before a run collapse into one.
 */
export class WorkQueue {
  readonly #clock: Clock;
  /** Waiting keys and the virtual time at which each is due; the smallest goes first. */
  readonly #dirty = new Map<string, { due: number; addedAt: number }>();
  readonly #processing = new Set<string>();
  readonly #delayed = new Map<string, { at: number; cancel: () => void }>();
  readonly #waiters: ((key: string | undefined) => void)[] = [];
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(key: string, priority: ReconcilePriority): void {
    if (this.#closed) return;
    const now = this.#clock.now();
    const due = now + priorities[priority] * PRIORITY_STEP_MS;
    const waiting = this.#dirty.get(key);
    if (waiting) {
      waiting.due = Math.min(waiting.due, due);
      return;
    }
    this.#dirty.set(key, { due, addedAt: now });
    this.onAdd(key);
    this.#dispatch();
  }

  /** Adds the key after `delayMs`. The latest word wins: it replaces an earlier delay of the key. */
  addAfter(key: string, delayMs: number, priority: ReconcilePriority): void {
    if (this.#closed) return;
    this.#cancelDelay(key);
    const cancel = this.#clock.setTimer(delayMs, () => {
      this.#delayed.delete(key);
      this.add(key, priority);
    });
    this.#delayed.set(key, { at: this.#clock.now() + delayMs, cancel });
  }

  /** The next key, which the caller works on until `done`; undefined once the queue is closed. */
  take(): Promise<string | undefined> {
    return new Promise((resolve) => {
      if (this.#closed) {
        resolve(undefined);
        return;
      }
      this.#waiters.push(resolve);
      this.#dispatch();
    });
  }

  done(key: string): void {
    this.#processing.delete(key);
    this.#dispatch();
  }

  close(): void {
    this.#closed = true;
    for (const key of this.#delayed.keys()) this.#cancelDelay(key);
    for (const waiter of this.#waiters.splice(0)) waiter(undefined);
  }

  /** Keys that wait, are being worked on, or have a delay running. */
  get depth(): { readonly waiting: number; readonly processing: number; readonly delayed: number } {
    return {
      waiting: this.#dirty.size,
      processing: this.#processing.size,
      delayed: this.#delayed.size,
    };
  }

  /** Milliseconds that the key, taken now, has waited since it was added; for the metrics. */
  onTake: (key: string, waitedMs: number) => void = () => {};
  /** The key waits now and did not before; for the metrics. */
  onAdd: (key: string) => void = () => {};

  #dispatch(): void {
    while (this.#waiters.length > 0) {
      const next = this.#next();
      if (next === undefined) return;
      const waiting = this.#dirty.get(next);
      this.#dirty.delete(next);
      this.#processing.add(next);
      // A run looks at everything, so a look planned for later is no longer needed: the run plans anew.
      this.#cancelDelay(next);
      this.onTake(next, this.#clock.now() - (waiting?.addedAt ?? this.#clock.now()));
      this.#waiters.shift()?.(next);
    }
  }

  /** A linear search: the queue holds a few hundred keys at most, and stays readable. */
  #next(): string | undefined {
    let best: string | undefined;
    let bestDue = Number.POSITIVE_INFINITY;
    for (const [key, { due }] of this.#dirty) {
      if (due < bestDue && !this.#processing.has(key)) {
        best = key;
        bestDue = due;
      }
    }
    return best;
  }

  #cancelDelay(key: string): void {
    this.#delayed.get(key)?.cancel();
    this.#delayed.delete(key);
  }
}
