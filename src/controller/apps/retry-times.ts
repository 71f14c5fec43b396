import type { Clock } from "../../base/clock.ts";
import type { BerthError } from "../../base/errors.ts";
import { reconcileBackoffMs } from "../reconcile-backoff.ts";
import { RetryLaterError } from "../retry-later-error.ts";

/** A step towards the image of an App that depends on another server, or on space that others use. */
export type RetriedStep = "source" | "pull" | "build";

interface FailedStep {
  /** Failures in a row. */
  readonly failures: number;
  readonly error: RetryLaterError;
  /** The next try has begun, so that the next failure counts. */
  isTrying: boolean;
}

/**
 * The time of the next try of each App's step that failed for a reason that may pass. It bounds the tries of an outage
 * whatever else queues the App meanwhile: an event of a container begins no try, and a run between two tries ends no
 * back-off. In memory only: the first run after a start of Berth tries at once.
 */
export class RetryTimes {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #apps = new Map<string, Map<RetriedStep, FailedStep>>();

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Returns the error of the last try while the next one is not due; undefined if the step may be tried now. */
  getWait(app: string, step: RetriedStep): RetryLaterError | undefined {
    const failed = this.#apps.get(app)?.get(step);
    if (!failed || failed.isTrying || this.#clock.now() >= failed.error.retryAtMs) return undefined;
    return failed.error;
  }

  /** True if the step has failed, and its next try has to begin now. */
  isDue(app: string, step: RetriedStep): boolean {
    const failed = this.#apps.get(app)?.get(step);
    return failed !== undefined && !failed.isTrying && this.getWait(app, step) === undefined;
  }

  /** Notes that a try begins: its failure will count. */
  begin(app: string, step: RetriedStep): void {
    const failed = this.#apps.get(app)?.get(step);
    if (failed) failed.isTrying = true;
  }

  /** Returns the error to throw for a failed try. A failure that is reported again is counted once. */
  fail(app: string, step: RetriedStep, error: BerthError): RetryLaterError {
    const steps = this.#apps.get(app) ?? new Map<RetriedStep, FailedStep>();
    const before = steps.get(step);
    if (before && !before.isTrying) return before.error;
    const failures = (before?.failures ?? 0) + 1;
    const delayMs = reconcileBackoffMs(failures - 1, this.#random);
    const later = new RetryLaterError(error, this.#clock.now() + delayMs);
    steps.set(step, { failures, error: later, isTrying: false });
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
