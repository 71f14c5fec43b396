import { BerthError } from "../base/errors.ts";

/** An error with the time of the next retry, which the reconcile loop uses instead of its usual back-off. */
export class RetryLaterError extends BerthError {
  /** Epoch milliseconds. */
  readonly retryAtMs: number;
  /** The time, in epoch milliseconds, from which the failure is reported, because it has then lasted too long. */
  readonly outageAtMs: number;

  constructor(failure: BerthError, retryAtMs: number, outageAtMs: number) {
    const { code, message, hint, details } = failure;
    super(code, message, { hint, details, cause: failure });
    this.retryAtMs = retryAtMs;
    this.outageAtMs = outageAtMs;
  }

  /**
   * Returns the time of the next reconcile, in epoch milliseconds: the time of the next try, or an earlier time at
   * which the outage has to be reported.
   */
  nextRunAtMs(nowMs: number): number {
    return this.outageAtMs > nowMs ? Math.min(this.outageAtMs, this.retryAtMs) : this.retryAtMs;
  }
}
