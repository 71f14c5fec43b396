import { backoffMs } from "../../base/backoff.ts";

/** The delay before the first restart, doubled with each further one. */
const FIRST_DELAY_MS = 1_000;
/** A daemon that was up this long starts again with the first delay. */
const HEALTHY_MS = 60_000;

/** Computes the delay before a daemon that has ended is started again. */
export class RestartBackoff {
  readonly #maxMs: number;
  #failures = 0;

  constructor(options: { readonly maxMs: number }) {
    this.#maxMs = options.maxMs;
  }

  /** Counts one more end of a daemon that had answered for `uptimeMs`, and returns the delay in milliseconds. */
  nextDelayMs(uptimeMs: number): number {
    if (uptimeMs >= HEALTHY_MS) this.#failures = 0;
    const delayMs = backoffMs(this.#failures, { firstMs: FIRST_DELAY_MS, maxMs: this.#maxMs });
    this.#failures += 1;
    return delayMs;
  }

  /** Forgets earlier failures, because another daemon or another bus comes next. */
  reset(): void {
    this.#failures = 0;
  }
}
