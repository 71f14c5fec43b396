import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";

export interface BackgroundStopsOptions {
  readonly runtime: WorkloadRuntime;
  readonly tasks: TaskGroup;
  readonly logger: Logger;
  /** Called when the container has ended or could not be stopped: the App has to be reconciled. */
  readonly onEnded: (app: string) => void;
}

/**
 * Stops containers of a replaced version in the background: they may take long to end, and the App is reconciled
 * meanwhile. A stop that is lost with the process is planned again by a later reconcile.
 */
export class BackgroundStops {
  readonly #options: BackgroundStopsOptions;
  readonly #stoppingIds = new Set<string>();

  constructor(options: BackgroundStopsOptions) {
    this.#options = options;
  }

  /** Ids of containers that are being stopped. */
  get stoppingIds(): ReadonlySet<string> {
    return this.#stoppingIds;
  }

  start(app: string, id: string, graceMs: number): void {
    if (this.#stoppingIds.has(id)) return;
    this.#stoppingIds.add(id);
    const { runtime, tasks, logger, onEnded } = this.#options;
    tasks.run("stop of a replaced container", async (signal) => {
      try {
        await runtime.stopContainer(id, graceMs, signal);
      } catch (error) {
        if (isAbortError(error) && signal.aborted) throw error;
        logger.warn(
          { app, container: id, error: getErrorMessage(error) },
          "a replaced container could not be stopped, will retry",
        );
      } finally {
        this.#stoppingIds.delete(id);
      }
      onEnded(app);
    });
  }
}
