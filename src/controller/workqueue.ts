import type { Clock } from "../base/clock.ts";

/** Priorities: an action of the user, then a spec change, then an engine event, then a resync. */
export const priorities = { user: 0, spec: 1, event: 2, resync: 3 } as const;
export type ReconcilePriority = keyof typeof priorities;

/**
 * The waiting time that equals one step of priority. A resync that has waited 6 s comes before a new action of the
 * user, so that every key is processed at some time.
 */
const PRIORITY_STEP_MS = 2_000;

/**
 * A work queue as in client-go. Only one worker at a time processes a key. If a key is added while a worker processes
 * it, the key is processed once more afterwards, unless all of these additions were hints that `takeHints` has removed.
 * Any number of additions before a worker takes the key count as one.
 */
export class WorkQueue {
  readonly #clock: Clock;
  /**
   * The waiting keys. `take` returns the key with the smallest `due`: the time when the key was added, plus a delay
   * that depends on the priority.
   */
  readonly #dirty = new Map<string, { due: number; addedAt: number; isHint: boolean }>();
  readonly #processing = new Set<string>();
  readonly #delayed = new Map<string, { at: number; cancel: () => void }>();
  readonly #waiters: ((key: string | undefined) => void)[] = [];
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Adds the key. `isHint` marks an addition that a later observation of the key's resource makes unnecessary; see
   * `takeHints`.
   */
  add(key: string, priority: ReconcilePriority, isHint = false): void {
    if (this.#closed) return;
    const now = this.#clock.now();
    const due = now + priorities[priority] * PRIORITY_STEP_MS;
    const waiting = this.#dirty.get(key);
    if (waiting) {
      waiting.due = Math.min(waiting.due, due);
      waiting.isHint &&= isHint;
      return;
    }
    this.#dirty.set(key, { due, addedAt: now, isHint });
    this.onAdd(key);
    this.#dispatch();
  }

  /** Adds the key after `delayMs`. Replaces an earlier delay of the key. */
  addAfter(key: string, delayMs: number, priority: ReconcilePriority): void {
    if (this.#closed) return;
    this.#cancelDelay(key);
    const cancel = this.#clock.setTimer(delayMs, () => {
      this.#delayed.delete(key);
      this.add(key, priority);
    });
    this.#delayed.set(key, { at: this.#clock.now() + delayMs, cancel });
  }

  /**
   * Resolves to the next key, or to undefined when the queue is closed. The key counts as being processed until the
   * caller calls `done`.
   */
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

  /**
   * Called by the worker of a key before it observes the key's resource. If all additions of the key since `take` were
   * hints (see `add`), removes the key from the queue, because the coming observation sees the changes that caused the
   * hints. Returns true if the key was added since `take`, as a hint or otherwise.
   */
  takeHints(key: string): boolean {
    const waiting = this.#dirty.get(key);
    if (waiting?.isHint === true && this.#processing.has(key)) {
      this.#dirty.delete(key);
      this.onTakeHints(key);
    }
    return waiting !== undefined;
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

  /** The number of keys that are waiting, being processed, or delayed. */
  get depth(): { readonly waiting: number; readonly processing: number; readonly delayed: number } {
    return {
      waiting: this.#dirty.size,
      processing: this.#processing.size,
      delayed: this.#delayed.size,
    };
  }

  /** Called with the milliseconds that a key waited before it was taken; for the metrics. */
  onTake: (key: string, waitedMs: number) => void = () => {};
  /** Called when `takeHints` has removed a waiting key that only hints had added; for the metrics. */
  onTakeHints: (key: string) => void = () => {};
  /** Called when a key is added that was not in the queue; for the metrics. */
  onAdd: (key: string) => void = () => {};

  #dispatch(): void {
    while (this.#waiters.length > 0) {
      const next = this.#next();
      if (next === undefined) return;
      const waiting = this.#dirty.get(next);
      this.#dirty.delete(next);
      this.#processing.add(next);
      // The reconcile that begins now reads the whole state, and requeues the key if needed, so a delayed addition has
      // become unnecessary.
      this.#cancelDelay(next);
      this.onTake(next, this.#clock.now() - (waiting?.addedAt ?? this.#clock.now()));
      this.#waiters.shift()?.(next);
    }
  }

  /** Returns the next key by a linear search, which is fast enough for the few hundred keys of a queue. */
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
