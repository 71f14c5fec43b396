import type { Clock } from "../../base/clock.ts";
import type { BerthError } from "../../base/errors.ts";
import { BACKOFF_MAX_MS, reconcileBackoffMs } from "../reconcile-backoff.ts";
import { RetryLaterError } from "../retry-later-error.ts";

/**
 * A step that is needed for the image of an App: resolving the source, pulling the image or building it. It depends on
 * another server, or on disk space that other programs use too.
 */
export type RetriedStep = "source" | "pull" | "build";

interface FailedStep {
  /** The number of successive failures. */
  readonly failures: number;
  /**
   * The time, in epoch milliseconds, since which the pull, the build or the resolution of the source has made no
   * progress.
   */
  readonly sinceMs: number;
  readonly error: RetryLaterError;
  /**
   * False after a failure until the next attempt of the step begins. Meanwhile `fail` returns the last error, and
   * counts no further failure.
   */
  isTrying: boolean;
}

/**
 * Stores the time of the next attempt of each failed step of an App, if the cause of the failure may pass. The times
 * limit the number of attempts during an outage even if the App is queued for other reasons: an event of a container
 * starts no attempt, and a reconcile run between two attempts does not end a back-off. The times are in memory only, so
 * the first reconcile run after a start of Berth attempts each step immediately.
 */
export class RetryTimes {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #apps = new Map<string, Map<RetriedStep, FailedStep>>();

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Returns the last error of the App's `step` (resolving the source, pulling or building the image) until its next
   * attempt is due; undefined if `step` may be tried now.
   */
  getWait(app: string, step: RetriedStep): RetryLaterError | undefined {
    const failed = this.#apps.get(app)?.get(step);
    if (!failed || failed.isTrying) return undefined;
    const waitMs = failed.error.retryAtMs - this.#clock.now();
    // A wait beyond the longest back-off means that the machine's clock was wrong and has been corrected, so the step
    // may be tried now.
    return waitMs > 0 && waitMs <= BACKOFF_MAX_MS ? failed.error : undefined;
  }

  /** True if `step` (the source, the pull or the build) has failed for the App, and its next attempt is due. */
  isDue(app: string, step: RetriedStep): boolean {
    const failed = this.#apps.get(app)?.get(step);
    return failed !== undefined && !failed.isTrying && this.getWait(app, step) === undefined;
  }

  /**
   * Returns the last error of a step that has failed for longer than the App's progress deadline, or of a step for
   * which a disk is full. Returns undefined if there is no such step. An unreachable engine does not count, because the
   * status reports it in another way.
   */
  findOutage(app: string): RetryLaterError | undefined {
    const nowMs = this.#clock.now();
    for (const { error } of this.#apps.get(app)?.values() ?? [])
      if (error.code !== "engine_unreachable" && error.outageAtMs <= nowMs) return error;
    return undefined;
  }

  /**
   * Records that an attempt of the step (resolving the source, pulling the image or building it) begins, so that the
   * next call of `fail` counts a further failure.
   */
  begin(app: string, step: RetriedStep): void {
    const failed = this.#apps.get(app)?.get(step);
    if (failed) failed.isTrying = true;
  }

  /**
   * Records a failure of the source, the pull or the build, and returns the error to throw. A failure that is reported
   * twice counts once. If the disk is full, the longest delay applies at once, because each try would fill the disk
   * again.
   */
  fail(
    app: string,
    step: RetriedStep,
    error: BerthError,
    /**
     * The limits after which failures of the step count as an outage. `sinceMs` is the time of the last progress of the
     * step (default: now), and `deadlineMs` the longest time without progress.
     */
    patience: { readonly sinceMs?: number | undefined; readonly deadlineMs: number },
  ): RetryLaterError {
    const steps = this.#apps.get(app) ?? new Map<RetriedStep, FailedStep>();
    const before = steps.get(step);
    if (before && !before.isTrying) return before.error;
    const failures = (before?.failures ?? 0) + 1;
    const nowMs = this.#clock.now();
    const sinceMs = Math.min(nowMs, before?.sinceMs ?? patience.sinceMs ?? nowMs);
    const isFull = error.code === "disk_full";
    const delayMs = isFull ? BACKOFF_MAX_MS : reconcileBackoffMs(failures - 1, this.#random);
    const outageAtMs = isFull ? nowMs : sinceMs + patience.deadlineMs;
    const later = new RetryLaterError(error, nowMs + delayMs, outageAtMs);
    steps.set(step, { failures, sinceMs, error: later, isTrying: false });
    this.#apps.set(app, steps);
    return later;
  }

  succeed(app: string, step: RetriedStep): void {
    const steps = this.#apps.get(app);
    if (steps?.delete(step) && steps.size === 0) this.#apps.delete(app);
  }

  /** Forgets the failures of an App, so that every step may be tried at once. */
  reset(app: string): void {
    this.#apps.delete(app);
  }
}
