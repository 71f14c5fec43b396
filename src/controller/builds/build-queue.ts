import type { TaskGroup } from "../../base/task-group.ts";
import type { BuildEndReason, BuildJob } from "./build-job.ts";

export interface BuildQueueOptions {
  /** The maximum number of concurrent builds of all Apps. Each App has at most one running build. */
  readonly concurrency: number;
  readonly tasks: TaskGroup;
  /**
   * Builds the image and records the result; never throws. If the job has to wait for disk space, it then returns to
   * the queue.
   */
  readonly run: (job: BuildJob) => Promise<void>;
  /** Called when a job was cancelled before it started. */
  readonly onDropped: (job: BuildJob, ending: BuildEndReason) => void;
  /** Called with the number of queued builds when it changes. */
  readonly onDepth: (waiting: number) => void;
}

/**
 * Queued and running builds. Apps are served in the order of their first requests. A newer request of an App replaces
 * its queued build, and cancels its running build if that builds another image.
 */
export class BuildQueue {
  readonly #options: BuildQueueOptions;
  readonly #waiting: BuildJob[] = [];
  readonly #running = new Map<
    string,
    { readonly job: BuildJob; readonly untilEnded: Promise<void> }
  >();

  constructor(options: BuildQueueOptions) {
    this.#options = options;
  }

  /** Returns the current build of the App. A build that has been cancelled does not count. */
  current(app: string): BuildJob | undefined {
    const waiting = this.#waiting.find((job) => job.app === app);
    const running = this.#running.get(app)?.job;
    const isGivenUp =
      running?.endReason?.type === "superseded" || running?.endReason?.type === "unwanted";
    return waiting ?? (isGivenUp ? undefined : running);
  }

  find(id: number): BuildJob | undefined {
    return this.all().find((job) => job.id === id);
  }

  all(): readonly BuildJob[] {
    return [...this.#running.values()].map(({ job }) => job).concat(this.#waiting);
  }

  /** Returns the queued builds that wait for space. */
  waitingForSpace(): readonly BuildJob[] {
    return this.#waiting.filter((job) => job.spaceWait);
  }

  /** Ends the wait of the given builds for disk space. */
  resume(jobs: readonly BuildJob[]): void {
    for (const job of jobs) job.endSpaceWait();
    this.#startNext();
  }

  /** Returns the number of builds before a job, including running builds. */
  countAhead(job: BuildJob): number {
    return Math.max(0, this.#waiting.indexOf(job)) + this.#running.size;
  }

  add(job: BuildJob): void {
    const ending = { type: "superseded", by: job.id } as const;
    const at = this.#waiting.findIndex(({ app }) => app === job.app);
    const older = at === -1 ? undefined : this.#waiting[at];
    if (older) {
      this.#waiting[at] = job;
      this.#options.onDropped(older, ending);
    } else this.#waiting.push(job);
    this.#running.get(job.app)?.job.abort(ending);
    this.#startNext();
  }

  /** Cancels a build, and resolves when it has ended. Returns false if it had already ended. */
  async end(id: number, ending: BuildEndReason): Promise<boolean> {
    const at = this.#waiting.findIndex((job) => job.id === id);
    const [waiting] = at === -1 ? [] : this.#waiting.splice(at, 1);
    if (waiting) {
      this.#options.onDropped(waiting, ending);
      this.#reportDepth();
      return true;
    }
    const running = [...this.#running.values()].find(({ job }) => job.id === id);
    if (!running) return false;
    running.job.abort(ending);
    await running.untilEnded;
    return true;
  }

  async endAll(ending: BuildEndReason): Promise<void> {
    await Promise.all(this.all().map((job) => this.end(job.id, ending)));
  }

  #startNext(): void {
    while (this.#running.size < this.#options.concurrency) {
      const at = this.#waiting.findIndex((job) => !job.spaceWait && !this.#running.has(job.app));
      const [job] = at === -1 ? [] : this.#waiting.splice(at, 1);
      if (!job) break;
      this.#start(job);
    }
    this.#reportDepth();
  }

  #start(job: BuildJob): void {
    job.markRunning();
    const untilEnded = new Promise<void>((resolve) => {
      this.#options.tasks.run(`build ${job.id}`, async () => {
        try {
          await this.#options.run(job);
        } finally {
          this.#running.delete(job.app);
          if (job.spaceWait) this.#returnToQueue(job);
          resolve();
          this.#startNext();
        }
      });
    });
    this.#running.set(job.app, { job, untilEnded });
  }

  #returnToQueue(job: BuildJob): void {
    const { endReason } = job;
    if (endReason) this.#options.onDropped(job, endReason);
    else this.#waiting.unshift(job);
  }

  #reportDepth(): void {
    this.#options.onDepth(this.#waiting.length);
  }
}
