/** The first wait before a start after an end, doubled with each that follows, in milliseconds. */
const FIRST_DELAY_MS = 1_000;
/** A daemon that was up this long and ends then has not failed before. */
const HEALTHY_MS = 60_000;

/** How long to wait before a daemon that has ended is started again. */
export class RestartBackoff {
  readonly #maxMs: number;
  #failures = 0;

  constructor(options: { readonly maxMs: number }) {
    this.#maxMs = options.maxMs;
  }

  /** After one more end, of a daemon that had answered for `heldMs`. */
  nextDelayMs(uptimeMs: number): number {
    if (uptimeMs >= HEALTHY_MS) this.#failures = 0;
    const waitMs = Math.min(FIRST_DELAY_MS * 2 ** this.#failures, this.#maxMs);
    this.#failures++;
    return waitMs;
  }

  /** What failed has nothing to say about what comes. */
  reset(): void {
    this.#failures = 0;
  }
}
