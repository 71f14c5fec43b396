import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";

/**
 * Stops that nobody waits for: a version that has been replaced may take its time to end, while its
 * App is looked after. What is under way is lost with the process, and simply asked for again.
 */
export class BackgroundStops {
  readonly #runtime: WorkloadRuntime;
  readonly #tasks: TaskGroup;
  readonly #logger: Logger;
  readonly #onEnded: (app: string) => void;
  readonly #stoppingIds = new Set<string>();

  constructor(options: {
    readonly runtime: WorkloadRuntime;
    readonly tasks: TaskGroup;
    readonly logger: Logger;
    /** The container has ended, or could not be stopped: look again. */
    readonly onEnded: (app: string) => void;
  }) {
    this.#runtime = options.runtime;
    this.#tasks = options.tasks;
    this.#logger = options.logger;
    this.#onEnded = options.onEnded;
  }

  /** Ids of containers that are being stopped. */
  get stoppingIds(): ReadonlySet<string> {
    return this.#stoppingIds;
  }

  start(app: string, id: string, graceMs: number): void {
    if (this.#stoppingIds.has(id)) return;
    this.#stoppingIds.add(id);
    this.#tasks.run("stop of a replaced container", async (signal) => {
      try {
        await this.#runtime.stopContainer(id, graceMs, signal);
      } catch (error) {
        if (isAbortError(error) && signal.aborted) throw error;
        this.#logger.warn(
          { app, container: id, error: getErrorMessage(error) },
          "a replaced container could not be stopped, will retry",
        );
      } finally {
        this.#stoppingIds.delete(id);
      }
      this.#onEnded(app);
    });
  }
}
