import { type Clock, systemClock } from "../../src/base/clock.ts";

/** A clock that shows the time of another clock, by default the real time, and counts the pending timers. */
export class CountingClock implements Clock {
  readonly #base: Clock;
  /** The number of timers that have neither run nor been cancelled. */
  pending = 0;

  constructor(base: Clock = systemClock) {
    this.#base = base;
  }

  now(): number {
    return this.#base.now();
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    this.pending += 1;
    let isOver = false;
    const over = () => {
      if (!isOver) this.pending -= 1;
      isOver = true;
    };
    const cancel = this.#base.setTimer(delayMs, () => {
      over();
      callback();
    });
    return () => {
      over();
      cancel();
    };
  }
}
