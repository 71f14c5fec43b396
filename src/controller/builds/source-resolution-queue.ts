import type { TaskGroup } from "../../base/task-group.ts";

/**
 * The maximum number of concurrent resolutions. Each one sends a request to a remote server, or reads a whole folder.
 */
const RESOLUTIONS_MAX = 4;

export interface SourceResolution {
  readonly app: string;
  /** Identifies the inputs of the resolution. If the inputs change, another resolution is needed. */
  readonly attempt: string;
  /** True if the revision is already known, and the source is only checked for a change. */
  readonly isRefresh: boolean;
}

interface QueueEntry extends SourceResolution {
  readonly controller: AbortController;
  /** True if the source may have changed during the resolution, which then has to be repeated. */
  shouldRepeat: boolean;
}

/**
 * A queue in which the sources of Apps are resolved to commits or digests, in the order of the calls. Each App has at
 * most one entry, which is queued or running.
 */
export class SourceResolutionQueue {
  readonly #tasks: TaskGroup;
  readonly #run: (resolution: SourceResolution, signal: AbortSignal) => Promise<void>;
  readonly #entries = new Map<string, QueueEntry>();
  readonly #waiting: QueueEntry[] = [];
  #running = 0;

  /** `run` resolves the source and records the result; it does not throw if the source is unavailable. */
  constructor(options: {
    tasks: TaskGroup;
    run: (resolution: SourceResolution, signal: AbortSignal) => Promise<void>;
  }) {
    this.#tasks = options.tasks;
    this.#run = options.run;
  }

  get(app: string): SourceResolution | undefined {
    return this.#entries.get(app);
  }

  /**
   * Starts a resolution, and cancels one of the same App with other inputs. If a resolution with the same inputs
   * is already running, it is used. With `mayBeStale`, another resolution follows the running one, because the
   * source may have changed after the running one began.
   */
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
      this.#tasks.run(`resolve the source of ${entry.app}`, async (signal) => {
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
        // The resolution of the source was cancelled while it ran, so its error is ignored.
        if (entry.controller.signal.aborted) return;
        throw error;
      } finally {
        if (!entry.shouldRepeat && this.#entries.get(entry.app) === entry)
          this.#entries.delete(entry.app);
      }
    } while (entry.shouldRepeat && !signal.aborted);
  }
}
