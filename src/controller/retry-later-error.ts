import { BerthError } from "../base/errors.ts";

/** A failure whose next try has a time of its own: the loop waits for it instead of its usual back-off. */
export class RetryLaterError extends BerthError {
  /** Epoch milliseconds. */
  readonly retryAtMs: number;

  constructor(failure: BerthError, retryAtMs: number) {
    const { code, message, hint, details } = failure;
    super(code, message, { hint, details, cause: failure });
    this.retryAtMs = retryAtMs;
  }
}
