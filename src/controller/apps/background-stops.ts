import { backoffMs } from "../../base/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";

/** The first and the longest delay of the back-off after a failed stop of a container. */
const RETRY_FIRST_MS = 1_000;
const RETRY_MAX_MS = 60_000;

export interface BackgroundStopsOptions {
  readonly runtime: WorkloadRuntime;
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  readonly logger: Logger;
  /** Called when the container has ended or could not be stopped: the App has to be reconciled. */
  readonly onEnded: (app: string) => void;
}

/**
 * Stops containers of a replaced version in the background, because a stop may take long, and the App is reconciled
 * meanwhile. If Berth ends during a stop, a later reconcile plans the stop again.
 */
export class BackgroundStops {
  readonly #options: BackgroundStopsOptions;
  readonly #stoppingIds = new Set<string>();
  /** The number of consecutive failed stops, by container id. */
  readonly #failures = new Map<string, number>();

  constructor(options: BackgroundStopsOptions) {
    this.#options = options;
  }

  /** Ids of containers that are being stopped, or whose stop has failed and is not repeated yet. */
  get stoppingIds(): ReadonlySet<string> {
    return this.#stoppingIds;
  }

  start(app: string, id: string, graceMs: number): void {
    if (this.#stoppingIds.has(id)) return;
    this.#stoppingIds.add(id);
    const { runtime, clock, tasks, logger, onEnded } = this.#options;
    const end = () => {
      this.#stoppingIds.delete(id);
      onEnded(app);
    };
    tasks.run("stop of a replaced container", async (signal) => {
      try {
        await runtime.stopContainer(id, graceMs, signal);
      } catch (error) {
        if (isAbortError(error) && signal.aborted) throw error;
        const failures = this.#failures.get(id) ?? 0;
        this.#failures.set(id, failures + 1);
        const retryInMs = backoffMs(failures, { firstMs: RETRY_FIRST_MS, maxMs: RETRY_MAX_MS });
        logger.warn(
          { app, container: id, error: getErrorMessage(error), retryInMs },
          "a replaced container could not be stopped, will retry",
        );
        clock.setTimer(retryInMs, end);
        return;
      }
      this.#failures.delete(id);
      end();
    });
  }
}
