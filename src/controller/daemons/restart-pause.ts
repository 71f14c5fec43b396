/** The first wait before a start after an end, doubled with each that follows, in milliseconds. */
const FIRST_WAIT_MS = 1_000;
/** A daemon that was up this long and ends then has not failed before. */
const HEALTHY_MS = 60_000;

/** How long to wait before a daemon that has ended is started again. */
export class RestartPause {
  readonly #longestMs: number;
  #failures = 0;

  constructor(options: { readonly longestMs: number }) {
    this.#longestMs = options.longestMs;
  }

  /** After one more end, of a daemon that had answered for `heldMs`. */
  after(heldMs: number): number {
    if (heldMs >= HEALTHY_MS) this.#failures = 0;
    const waitMs = Math.min(FIRST_WAIT_MS * 2 ** this.#failures, this.#longestMs);
    this.#failures++;
    return waitMs;
  }

  /** What failed has nothing to say about what comes. */
  reset(): void {
    this.#failures = 0;
  }
}
