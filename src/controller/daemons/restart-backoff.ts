import { backoffMs } from "../../base/backoff.ts";

/** The delay before the first restart. It doubles with each further restart. */
const FIRST_DELAY_MS = 1_000;
/** If a daemon ran this long, its next restart has the first delay again. */
const HEALTHY_MS = 60_000;

/** Computes the delay before a daemon that has ended is started again. */
export class RestartBackoff {
  readonly #maxMs: number;
  #failures = 0;

  constructor(options: { readonly maxMs: number }) {
    this.#maxMs = options.maxMs;
  }

  /**
   * Counts an exit of the daemon, and returns the delay before its restart in milliseconds. `uptimeMs` is the time for
   * which the daemon had answered requests; a long uptime resets the delay.
   */
  nextDelayMs(uptimeMs: number): number {
    if (uptimeMs >= HEALTHY_MS) this.#failures = 0;
    const delayMs = backoffMs(this.#failures, { firstMs: FIRST_DELAY_MS, maxMs: this.#maxMs });
    this.#failures += 1;
    return delayMs;
  }

  /** Forgets the earlier failures, so that the next restart follows after the shortest delay. */
  reset(): void {
    this.#failures = 0;
  }
}
