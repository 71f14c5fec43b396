import { BerthError } from "../base/errors.ts";

/** A failure whose next try has a time of its own: the loop waits for it instead of its usual back-off. */
export class RetryLaterError extends BerthError {
  /** Epoch milliseconds. */
  readonly retryAtMs: number;
  /** The time from which the failure must be reported, because it has lasted too long, in epoch milliseconds. */
  readonly outageAtMs: number;

  constructor(failure: BerthError, retryAtMs: number, outageAtMs: number) {
    const { code, message, hint, details } = failure;
    super(code, message, { hint, details, cause: failure });
    this.retryAtMs = retryAtMs;
    this.outageAtMs = outageAtMs;
  }

  /** Returns when to reconcile again: to try, or before that to report the outage. In epoch milliseconds. */
  nextRunAtMs(nowMs: number): number {
    return this.outageAtMs > nowMs ? Math.min(this.outageAtMs, this.retryAtMs) : this.retryAtMs;
  }
}
