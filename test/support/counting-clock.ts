import { type Clock, systemClock } from "../../src/base/clock.ts";

/** A clock that shows the real time and counts the pending timers. */
export class CountingClock implements Clock {
  /** The number of timers that have neither run nor been cancelled. */
  pending = 0;

  now(): number {
    return systemClock.now();
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    this.pending += 1;
    let isOver = false;
    const over = () => {
      if (!isOver) this.pending -= 1;
      isOver = true;
    };
    const cancel = systemClock.setTimer(delayMs, () => {
      over();
      callback();
    });
    return () => {
      over();
      cancel();
    };
  }
}
