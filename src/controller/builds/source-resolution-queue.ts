import type { TaskGroup } from "../../base/task-group.ts";

/** Looks at once: each is a question to somebody else's server, or reads a whole folder. */
const RESOLUTIONS_MAX = 4;

export interface SourceResolution {
  readonly app: string;
  /** What it was begun for; a look for anything else is another one. */
  readonly attempt: string;
  /** A look at a source that is known already, to see whether it has moved. */
  readonly isRefresh: boolean;
}

interface QueueEntry extends SourceResolution {
  readonly controller: AbortController;
  /** Something happened at the source while it was looked at: look once more. */
  shouldRepeat: boolean;
}

/** Looks under way, at most one for each App, a few at once, in the order in which they were asked for. */
export class SourceResolutionQueue {
  readonly #tasks: TaskGroup;
  readonly #run: (look: SourceResolution, signal: AbortSignal) => Promise<void>;
  readonly #entries = new Map<string, QueueEntry>();
  readonly #waiting: QueueEntry[] = [];
  #running = 0;

  /** `run` looks and writes down what it saw; it does not throw for a source that cannot be had. */
  constructor(options: {
    tasks: TaskGroup;
    run: (look: SourceResolution, signal: AbortSignal) => Promise<void>;
  }) {
    this.#tasks = options.tasks;
    this.#run = options.run;
  }

  get(app: string): SourceResolution | undefined {
    return this.#entries.get(app);
  }

  /** Begins a look. One under way for the same is enough, unless `news` says that it may have come too early. */
  start(resolution: SourceResolution, mayBeStale = false): void {
    const known = this.#entries.get(resolution.app);
    if (known?.attempt === resolution.attempt && known.isRefresh === resolution.isRefresh) {
      known.shouldRepeat ||= mayBeStale && !this.#waiting.includes(known);
      return;
    }
    this.cancel(resolution.app);
    const entry = { ...resolution, controller: new AbortController(), shouldRepeat: false };
    this.#entries.set(resolution.app, entry);
    this.#waiting.push(entry);
    this.#startNext();
  }

  cancel(app: string): void {
    const entry = this.#entries.get(app);
    if (!entry) return;
    this.#entries.delete(app);
    entry.controller.abort();
    const at = this.#waiting.indexOf(entry);
    if (at !== -1) this.#waiting.splice(at, 1);
  }

  #startNext(): void {
    while (this.#running < RESOLUTIONS_MAX) {
      const entry = this.#waiting.shift();
      if (!entry) return;
      this.#running += 1;
      this.#tasks.run(`look at the source of ${entry.app}`, async (signal) => {
        try {
          await this.#resolve(entry, AbortSignal.any([signal, entry.controller.signal]));
        } finally {
          this.#running -= 1;
          this.#startNext();
        }
      });
    }
  }

  async #resolve(entry: QueueEntry, signal: AbortSignal): Promise<void> {
    do {
      entry.shouldRepeat = false;
      try {
        await this.#run(entry, signal);
      } catch (error) {
        // Nobody wants to know any more.
        if (entry.controller.signal.aborted) return;
        throw error;
      } finally {
        if (!entry.shouldRepeat && this.#entries.get(entry.app) === entry)
          this.#entries.delete(entry.app);
      }
    } while (entry.shouldRepeat && !signal.aborted);
  }
}
