import type { TaskGroup } from "../../base/task-group.ts";
import type { BuildEndReason, BuildJob } from "./build-job.ts";

export interface BuildQueueOptions {
  /** Builds at once, over all Apps; of one App never more than one. */
  readonly concurrency: number;
  readonly tasks: TaskGroup;
  /** Makes the image and writes down how it went; does not throw. The signal is the job's. */
  readonly run: (job: BuildJob) => Promise<void>;
  /** A job ended before it began. */
  readonly onDropped: (job: BuildJob, ending: BuildEndReason) => void;
  /** How many wait; called when that changes. */
  readonly onDepth: (waiting: number) => void;
}

/**
 * Builds that wait and builds that run. Apps come in the order in which they first asked: a newer
 * request of an App takes the place of its older one, and ends the one that runs for another image.
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

  /** The build whose result the App waits for: not one that has been given up. */
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

  /** What stands between a job and its beginning: builds in front of it, those that run included. */
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

  /** Ends a build; resolves when it has ended. False where it had already. */
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
      const at = this.#waiting.findIndex((job) => !this.#running.has(job.app));
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
          resolve();
          this.#startNext();
        }
      });
    });
    this.#running.set(job.app, { job, untilEnded });
  }

  #reportDepth(): void {
    this.#options.onDepth(this.#waiting.length);
  }
}
