import { type Clock, systemClock } from "../../src/base/clock.ts";

/** The real time, which knows how many timers are set and how many ever were. */
export class CountingClock implements Clock {
  /** Neither ran nor were taken back. */
  pending = 0;
  everSet = 0;

  now(): number {
    return systemClock.now();
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    this.pending += 1;
    this.everSet += 1;
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
