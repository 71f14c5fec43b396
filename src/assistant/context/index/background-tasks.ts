/** What a task may take before others have their turn, in milliseconds: a search waits no longer. */
const SLICE_MS = 12;

interface Task {
  readonly steps: Generator<void>;
  readonly onEnd: (error: unknown) => void;
}

/**
 * Long work in a thread that has to answer as well: tasks are generators, carried on for some
 * milliseconds at a time, one after the other; those of `idle` only while there is no other.
 */
export class BackgroundTasks {
  readonly #queues: Record<"work" | "idle", Task[]> = { work: [], idle: [] };
  #isScheduled = false;
  #hasEnded = false;

  /** `onEnd` with the error, or with undefined where there was none. */
  add(queue: "work" | "idle", steps: Generator<void>, onEnd: (error: unknown) => void): void {
    if (this.#hasEnded) return;
    this.#queues[queue].push({ steps, onEnd });
    this.#schedule();
  }

  get isBusy(): boolean {
    return this.#queues.work.length > 0;
  }

  /** Leaves everything where it is: each step is whole. */
  stop(): void {
    this.#hasEnded = true;
    this.#queues.work.length = 0;
    this.#queues.idle.length = 0;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#run();
    });
  }

  #run(): void {
    const until = performance.now() + SLICE_MS;
    while (performance.now() < until) {
      const queue = this.#queues.work.length > 0 ? this.#queues.work : this.#queues.idle;
      const task = queue[0];
      if (!task) return;
      let error: unknown;
      try {
        if (task.steps.next().done !== true) continue;
      } catch (thrown) {
        error = thrown;
      }
      queue.splice(queue.indexOf(task), 1);
      task.onEnd(error);
    }
    if (this.#queues.work.length + this.#queues.idle.length > 0) this.#schedule();
  }
}
