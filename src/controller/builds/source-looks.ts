import type { TaskGroup } from "../../base/task-group.ts";

/** Looks at once: each is a question to somebody else's server, or reads a whole folder. */
const LOOKS_MAX = 4;

export interface Look {
  readonly app: string;
  /** What it was begun for; a look for anything else is another one. */
  readonly attempt: string;
  /** A look at a source that is known already, to see whether it has moved. */
  readonly isRefresh: boolean;
}

interface Entry extends Look {
  readonly controller: AbortController;
  /** Something happened at the source while it was looked at: look once more. */
  again: boolean;
}

/** Looks under way, at most one for each App, a few at once, in the order in which they were asked for. */
export class SourceLooks {
  readonly #tasks: TaskGroup;
  readonly #run: (look: Look, signal: AbortSignal) => Promise<void>;
  readonly #entries = new Map<string, Entry>();
  readonly #waiting: Entry[] = [];
  #running = 0;

  /** `run` looks and writes down what it saw; it does not throw for a source that cannot be had. */
  constructor(options: {
    tasks: TaskGroup;
    run: (look: Look, signal: AbortSignal) => Promise<void>;
  }) {
    this.#tasks = options.tasks;
    this.#run = options.run;
  }

  of(app: string): Look | undefined {
    return this.#entries.get(app);
  }

  /** Begins a look. One under way for the same is enough, unless `news` says that it may have come too early. */
  begin(look: Look, news = false): void {
    const known = this.#entries.get(look.app);
    if (known?.attempt === look.attempt && known.isRefresh === look.isRefresh) {
      known.again ||= news && !this.#waiting.includes(known);
      return;
    }
    this.end(look.app);
    const entry = { ...look, controller: new AbortController(), again: false };
    this.#entries.set(look.app, entry);
    this.#waiting.push(entry);
    this.#startNext();
  }

  end(app: string): void {
    const entry = this.#entries.get(app);
    if (!entry) return;
    this.#entries.delete(app);
    entry.controller.abort();
    const at = this.#waiting.indexOf(entry);
    if (at !== -1) this.#waiting.splice(at, 1);
  }

  #startNext(): void {
    while (this.#running < LOOKS_MAX) {
      const entry = this.#waiting.shift();
      if (!entry) return;
      this.#running += 1;
      this.#tasks.run(`look at the source of ${entry.app}`, async (signal) => {
        try {
          await this.#look(entry, AbortSignal.any([signal, entry.controller.signal]));
        } finally {
          this.#running -= 1;
          this.#startNext();
        }
      });
    }
  }

  async #look(entry: Entry, signal: AbortSignal): Promise<void> {
    do {
      entry.again = false;
      try {
        await this.#run(entry, signal);
      } catch (error) {
        // Nobody wants to know any more.
        if (entry.controller.signal.aborted) return;
        throw error;
      } finally {
        if (!entry.again && this.#entries.get(entry.app) === entry) this.#entries.delete(entry.app);
      }
    } while (entry.again && !signal.aborted);
  }
}
