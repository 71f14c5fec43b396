import type { Clock } from "../../base/clock.ts";

export interface IdleTimeout {
  readonly clock: Clock;
  /** The longest time without data, in milliseconds: before the response begins, and between two parts of it. */
  readonly idleMs: number;
}

/** Aborts its signal if no data arrives for a given time. */
export class IdleTimer {
  readonly #timeout: IdleTimeout;
  readonly #controller = new AbortController();
  #cancel: () => void;

  constructor(timeout: IdleTimeout) {
    this.#timeout = timeout;
    this.#cancel = this.#start();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Restarts the timer, because data has arrived. */
  touch(): void {
    this.#cancel();
    this.#cancel = this.#start();
  }

  stop(): void {
    this.#cancel();
  }

  #start(): () => void {
    const { clock, idleMs } = this.#timeout;
    return clock.setTimer(idleMs, () =>
      this.#controller.abort(new Error(`nothing was received for ${Math.ceil(idleMs / 1000)} s`)),
    );
  }
}
