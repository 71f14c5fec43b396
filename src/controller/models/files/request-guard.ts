import type { Clock } from "../../../base/clock.ts";
import type { RetryLimits } from "./download-backoff.ts";

/** Aborts a request when the download is aborted, or when nothing was received for too long. */
export class RequestGuard implements Disposable {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #stallMs: number;
  readonly #parent: AbortSignal;
  readonly #follow = () => this.#controller.abort(this.#parent.reason);
  #lastReceivedMs: number;
  #isPaused = false;
  #hasStalled = false;
  #cancel: () => void = () => {};

  constructor(
    { clock, limits }: { readonly clock: Clock; readonly limits: RetryLimits },
    parent: AbortSignal,
  ) {
    this.#clock = clock;
    this.#stallMs = limits.stallMs;
    this.#parent = parent;
    this.#lastReceivedMs = clock.now();
    if (parent.aborted) this.#follow();
    else parent.addEventListener("abort", this.#follow, { once: true });
    this.#watch(this.#stallMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get hasStalled(): boolean {
    return this.#hasStalled;
  }

  /** Restarts the timeout. It creates no new timer, because there are thousands of chunks a second. */
  touch(): void {
    this.#lastReceivedMs = this.#clock.now();
  }

  /** Suspends the timeout while `work` runs, because the disk may be slow or the bandwidth limited. */
  async pauseWhile(work: Promise<void>): Promise<void> {
    this.#isPaused = true;
    try {
      await work;
    } finally {
      this.#isPaused = false;
      this.touch();
    }
  }

  #watch(delayMs: number): void {
    this.#cancel = this.#clock.setTimer(delayMs, () => {
      const silentMs = this.#isPaused ? 0 : this.#clock.now() - this.#lastReceivedMs;
      if (silentMs < this.#stallMs) {
        this.#watch(this.#stallMs - silentMs);
        return;
      }
      this.#hasStalled = true;
      this.#controller.abort(new DOMException("nothing was received", "TimeoutError"));
    });
  }

  [Symbol.dispose](): void {
    this.#cancel();
    this.#parent.removeEventListener("abort", this.#follow);
  }
}
