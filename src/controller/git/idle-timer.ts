import type { Clock } from "../../base/clock.ts";

export interface IdleTimeout {
  readonly clock: Clock;
  /** How long nothing may arrive: for the first answer, and between any two pieces of one. */
  readonly idleMs: number;
}

/** Aborts its signal once nothing has been heard for a while. */
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

  /** Something was heard. */
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
      this.#controller.abort(new Error(`nothing was heard for ${Math.ceil(idleMs / 1000)} s`)),
    );
  }
}
