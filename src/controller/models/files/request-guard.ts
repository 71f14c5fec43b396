import type { Clock } from "../../../base/clock.ts";

/** Aborts one request when the whole download does, or when nothing has come for too long. */
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

  constructor(clock: Clock, stallMs: number, parent: AbortSignal) {
    this.#clock = clock;
    this.#stallMs = stallMs;
    this.#parent = parent;
    this.#lastReceivedMs = clock.now();
    if (parent.aborted) this.#follow();
    else parent.addEventListener("abort", this.#follow, { once: true });
    this.#watch(stallMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get hasStalled(): boolean {
    return this.#hasStalled;
  }

  /** Something was heard. Costs no timer: there are thousands of pieces a second. */
  touch(): void {
    this.#lastReceivedMs = this.#clock.now();
  }

  /** While `work` lasts it is we who do not read on: the disk is slow, or the bandwidth has a cap. */
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
      this.#controller.abort(new DOMException("nothing came", "TimeoutError"));
    });
  }

  [Symbol.dispose](): void {
    this.#cancel();
    this.#parent.removeEventListener("abort", this.#follow);
  }
}
