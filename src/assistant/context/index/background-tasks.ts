/** The longest time that tasks run before the event loop handles searches, in milliseconds. */
const SLICE_MS = 12;

interface Task {
  readonly steps: Generator<void>;
  readonly onEnd: (error: unknown) => void;
}

/**
 * Runs long tasks in a thread that must also answer requests. A task is a generator that runs for some milliseconds at
 * a time. Tasks run in order; those of the `idle` queue run only while the `work` queue is empty.
 */
export class BackgroundTasks {
  readonly #queues: Record<"work" | "idle", Task[]> = { work: [], idle: [] };
  #isScheduled = false;
  #hasEnded = false;

  /** Queues a task. Calls `onEnd` with the task's error, or with undefined if the task succeeds. */
  add(queue: "work" | "idle", steps: Generator<void>, onEnd: (error: unknown) => void): void {
    if (this.#hasEnded) return;
    this.#queues[queue].push({ steps, onEnd });
    this.#schedule();
  }

  get isBusy(): boolean {
    return this.#queues.work.length > 0;
  }

  /** Drops all tasks. A task can be dropped between any two steps, because each step leaves consistent data. */
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
