import type { Clock } from "../../base/clock.ts";
import { isAbortError } from "../../base/errors.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { ModelFileFacts, ResolvedModel } from "../../resources/model-status.ts";
import type { DownloadProgress } from "./files/port.ts";

/** The maximum number of concurrent downloads. More downloads would only share the same bandwidth. */
const DOWNLOADS_MAX = 2;

/** The result of a job that has succeeded. `step` is the kind of the job. */
export type JobResult =
  | { readonly step: "resolve"; readonly model: ResolvedModel }
  | { readonly step: "inspect"; readonly facts: ModelFileFacts }
  | { readonly step: "download" | "verify" | "load" | "unload" };

export type JobStep = JobResult["step"];

export type JobState =
  /** The job waits until another job of the model has ended, or until other downloads have ended. */
  | { readonly type: "waiting" }
  | {
      readonly type: "running";
      readonly progress: DownloadProgress | null;
      readonly bytesPerSecond: number | null;
    }
  | { readonly type: "done"; readonly result: JobResult }
  | { readonly type: "failed"; readonly error: unknown };

export interface JobRequest {
  readonly step: JobStep;
  /** Identifies the inputs of the job. Jobs with different keys are different jobs. */
  readonly key: string;
  run(onProgress: (progress: DownloadProgress) => void, signal: AbortSignal): Promise<JobResult>;
}

interface ModelJob {
  readonly step: JobStep;
  readonly key: string;
  readonly run: JobRequest["run"];
  readonly stop: AbortController;
  readonly rate: TransferRate;
  state: JobState;
}

interface ModelJobsOptions {
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  /** Called when a job has ended, and when a job that had to wait has started. */
  readonly onChanged: (model: string) => void;
}

/**
 * Runs slow work, with one job for each Model, concurrently with the reconcile workers. The workers never wait for a
 * hub or a load. If Berth ends, the job is lost, and the next reconcile requests it again.
 */
export class ModelJobs {
  readonly #options: ModelJobsOptions;
  readonly #jobs = new Map<string, ModelJob>();
  #downloads = 0;

  constructor(options: ModelJobsOptions) {
    this.#options = options;
  }

  /**
   * Returns the state of the model's job with this step and key; starts it if necessary. A job with another step or key
   * is cancelled first.
   */
  ensure(model: string, request: JobRequest): JobState {
    const known = this.#jobs.get(model);
    if (known?.step === request.step && known.key === request.key) return known.state;
    if (known) {
      this.cancel(model);
      if (this.#jobs.has(model)) return { type: "waiting" };
    }
    const job: ModelJob = {
      step: request.step,
      key: request.key,
      run: (onProgress, signal) => request.run(onProgress, signal),
      stop: new AbortController(),
      rate: new TransferRate(this.#options.clock),
      state: { type: "waiting" },
    };
    this.#jobs.set(model, job);
    this.#startNext(model);
    return job.state;
  }

  /** Returns the model's job, running or ended; undefined if there is none, or after `clearResult` has removed it. */
  current(model: string): { readonly step: JobStep; readonly state: JobState } | undefined {
    return this.#jobs.get(model);
  }

  /** Removes a job that has ended, so that the next `ensure` starts a new one. */
  clearResult(model: string): void {
    const job = this.#jobs.get(model);
    if (job && (job.state.type === "done" || job.state.type === "failed")) this.#jobs.delete(model);
  }

  /** Aborts the job; `onChanged` is called when it has ended. */
  cancel(model: string): void {
    const job = this.#jobs.get(model);
    if (!job) return;
    job.stop.abort();
    if (job.state.type !== "running") this.#jobs.delete(model);
  }

  /** Starts the waiting jobs that may run now. `requester` is not notified, because it sees the new state itself. */
  #startNext(requester?: string): void {
    for (const [model, job] of this.#jobs) {
      if (job.state.type !== "waiting") continue;
      const isDownload = job.step === "download";
      if (isDownload && this.#downloads >= DOWNLOADS_MAX) continue;
      job.state = { type: "running", progress: null, bytesPerSecond: null };
      if (isDownload) this.#downloads += 1;
      if (model !== requester) this.#options.onChanged(model);
      this.#options.tasks.run(`${job.step} of a model`, async (ending) => {
        try {
          await this.#runJob(model, job, ending);
        } finally {
          if (isDownload) this.#downloads -= 1;
          this.#startNext();
        }
      });
    }
  }

  async #runJob(model: string, job: ModelJob, ending: AbortSignal): Promise<void> {
    const stop = () => job.stop.abort();
    ending.addEventListener("abort", stop, { once: true });
    try {
      const result = await job.run((progress) => {
        // Progress that arrives after the end of the job must not change the state.
        if (job.state.type !== "running") return;
        const bytesPerSecond = job.rate.update(progress);
        job.state = { type: "running", progress, bytesPerSecond };
      }, job.stop.signal);
      job.state = { type: "done", result };
    } catch (error) {
      job.state = { type: "failed", error };
      if (job.stop.signal.aborted && isAbortError(error)) job.state = { type: "waiting" };
    } finally {
      ending.removeEventListener("abort", stop);
    }
    if (job.stop.signal.aborted && this.#jobs.get(model) === job) this.#jobs.delete(model);
    this.#options.onChanged(model);
  }
}

/**
 * The window over which the transfer rate is averaged, in milliseconds. With a shorter window the rate would fluctuate,
 * and with a longer one it would lag.
 */
const WINDOW_MS = 5_000;

/** Computes the average transfer rate of a model's download over the last WINDOW_MS milliseconds. */
class TransferRate {
  readonly #clock: Clock;
  #step: DownloadProgress["step"] | undefined;
  #samples: { readonly at: number; readonly bytes: number }[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Adds the present number of transferred bytes as a sample. Returns the rate in bytes per second; null until there
   * are two samples.
   */
  update({ step, doneBytes }: DownloadProgress): number | null {
    const at = this.#clock.now();
    // The earlier samples of transferred bytes are dropped when another step begins or a download starts again, because
    // the count then begins at 0.
    if (step !== this.#step || doneBytes < (this.#samples.at(-1)?.bytes ?? 0)) this.#samples = [];
    this.#step = step;
    this.#samples.push({ at, bytes: doneBytes });
    while (this.#samples.length > 2 && (this.#samples[1]?.at ?? at) <= at - WINDOW_MS)
      this.#samples.shift();
    const [oldest] = this.#samples;
    if (!oldest || oldest.at === at) return null;
    return Math.round(((doneBytes - oldest.bytes) * 1000) / (at - oldest.at));
  }
}
