import type { Clock } from "../../base/clock.ts";
import { getErrorMessage } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { formatBytes } from "../../base/units.ts";
import type { BuildRecordState } from "../../store/store.ts";
import { type BuildFailure, describeBuildFailure, isUnexpected } from "./build-failure.ts";
import type { BuildEndReason, BuildJob } from "./build-job.ts";
import type { BuildMetrics } from "./build-metrics.ts";
import type { BuildResults } from "./build-results.ts";
import { type BuildRunOptions, FolderChangedError, runBuild } from "./build-run.ts";
import type { BuildSpace, FreeSpace, SpaceWait } from "./free-space.ts";

/** The minimum interval between updates of the status, because the steps of a cached build are milliseconds apart. */
const STEP_REPORT_INTERVAL_MS = 1_000;

export interface BuildWorkerOptions {
  readonly run: BuildRunOptions;
  readonly space: BuildSpace;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timeoutMs: number;
  readonly results: BuildResults;
  readonly metrics: BuildMetrics | undefined;
  readonly onChanged: (app: string) => void;
  readonly onBuilt: () => void;
  readonly onSpaceWait: () => void;
  /** Called when the folder has changed: the App's source has to be resolved again. */
  readonly onFolderChanged: (app: string) => void;
}

/** Runs builds one after the other, and records their results. */
export class BuildWorker {
  readonly #options: BuildWorkerOptions;

  constructor(options: BuildWorkerOptions) {
    this.#options = options;
  }

  async run(job: BuildJob): Promise<void> {
    const { run, space, clock, timeoutMs, metrics, onBuilt } = this.#options;
    const { store } = run;
    const startedMs = clock.now();
    const stopTimer = clock.setTimer(timeoutMs, () => job.abort({ type: "timedOut" }));
    let free: FreeSpace | undefined;
    try {
      free = await space.measure(job.signal);
      const wait = space.findWait(free, job.shortage);
      if (wait) {
        this.#wait(job, wait);
        return;
      }
      store.builds.mark(job.id, "running");
      const { bytes } = await runBuild(run, job, this.#createStepReporter(job), job.signal);
      store.batch(() => {
        store.ownedImages.add(job.image, job.app);
        store.builds.mark(job.id, "succeeded", { imageBytes: bytes });
      });
      this.#options.results.set(job.app, job.image, { type: "succeeded", id: job.id });
      metrics?.builds.inc({ result: "succeeded" });
      job.log.end(
        `==> built ${job.image} (${formatBytes(bytes)}) in ${this.#seconds(startedMs)} s`,
      );
      onBuilt();
    } catch (error) {
      if (job.endReason) this.#recordEnd(job, job.endReason);
      else this.#fail(job, error, free);
    } finally {
      stopTimer();
      if (!job.spaceWait) {
        // Readers of the log must end even if the result could not be written to the store.
        job.log.end("==> ended");
        metrics?.seconds.observe((clock.now() - startedMs) / 1000);
      }
      this.#options.onChanged(job.app);
    }
  }

  /** Records the result of a build that was ended before it started. */
  drop(job: BuildJob, ending: BuildEndReason): void {
    this.#recordEnd(job, ending);
    if (ending.type === "cancelled" || ending.type === "unwanted") this.#options.onChanged(job.app);
  }

  /** Puts the build back in the queue until enough disk space is free. Its record and its log are kept. */
  #wait(job: BuildJob, wait: SpaceWait): void {
    const { run, logger, onSpaceWait } = this.#options;
    job.markWaiting(wait);
    job.log.write(`==> waiting for space: ${wait.message}`);
    onSpaceWait();
    logger.warn({ build: job.id, app: job.app, reason: wait.message }, "a build waits for space");
    run.store.builds.mark(job.id, "queued", { message: wait.message });
  }

  #fail(job: BuildJob, error: unknown, free: FreeSpace | undefined): void {
    if (isUnexpected(error)) {
      this.#options.logger.error({ build: job.id, app: job.app, err: error }, "a build failed");
    }
    const isMoved = error instanceof FolderChangedError && !job.isHeld;
    if (isMoved) this.#options.onFolderChanged(job.app);
    const failure = describeBuildFailure(error, job.mask);
    if (failure.reason === "DiskFull" && free) {
      const shortage = this.#options.space.createShortage(failure.message, free);
      job.shortage = shortage;
      this.#wait(job, shortage);
      return;
    }
    // If the folder has changed, the failure is not final: the source is resolved again, and its current content is
    // built.
    this.#recordResult(
      job,
      "failed",
      isMoved ? { ...failure, reason: "SourceChanged", terminal: false } : failure,
    );
    this.#options.logger.info(
      {
        build: job.id,
        app: job.app,
        reason: failure.reason,
        error: job.mask(getErrorMessage(error)),
      },
      "a build failed",
    );
  }

  /**
   * Records the result of a build that Berth has ended early. The result follows from the reason `ending`, not from the
   * error of the interrupted build.
   */
  #recordEnd(job: BuildJob, ending: BuildEndReason): void {
    const { timeoutMs } = this.#options;
    switch (ending.type) {
      case "cancelled":
        this.#recordResult(job, "cancelled", {
          reason: "BuildCancelled",
          message: `build ${job.id} was cancelled; deploy again to start a new build`,
          terminal: true,
        });
        return;
      case "timedOut":
        this.#recordResult(job, "failed", {
          reason: "BuildTimedOut",
          message: `build ${job.id} timed out after ${Math.round(timeoutMs / 1000)} s, at ${job.step}; make the build faster, or set a longer --build-timeout`,
          terminal: true,
        });
        return;
      case "superseded":
        this.#close(job, "cancelled", `superseded by build ${ending.by}`);
        return;
      case "unwanted":
        this.#close(job, "cancelled", ending.why);
        return;
      case "forgotten":
        this.#close(job, "cancelled", "the app was deleted");
        return;
      case "shutdown":
        this.#close(job, "abandoned", "Berth ended during this build");
        return;
      default:
        ending satisfies never;
    }
  }

  #recordResult(job: BuildJob, state: "failed" | "cancelled", failure: BuildFailure): void {
    this.#options.results.set(job.app, job.image, { type: "failed", id: job.id, ...failure });
    this.#close(job, state, failure.message);
  }

  #close(
    job: BuildJob,
    state: Exclude<BuildRecordState, "queued" | "running">,
    message: string,
  ): void {
    this.#options.run.store.builds.mark(job.id, state, { message });
    this.#options.metrics?.builds.inc({ result: state });
    job.log.end(`==> ${state}: ${message}`);
  }

  #createStepReporter(job: BuildJob): (step: string) => void {
    const { clock, onChanged } = this.#options;
    // The reconcile run that has requested the build reports that the build has begun, so the first step is reported
    // only after STEP_REPORT_INTERVAL_MS.
    let reportedMs = clock.now();
    return (step) => {
      job.setStep(job.mask(step));
      if (clock.now() - reportedMs < STEP_REPORT_INTERVAL_MS) return;
      reportedMs = clock.now();
      onChanged(job.app);
    };
  }

  #seconds(startedMs: number): string {
    return ((this.#options.clock.now() - startedMs) / 1000).toFixed(1);
  }
}
