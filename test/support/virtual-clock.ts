import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../../src/base/clock.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
}

/** A clock that only a test advances. Timers run in order, each in its own turn of the event loop. */
export class VirtualClock implements Clock {
  #now: number;
  #order = 0;
  readonly #timers = new Set<Timer>();

  constructor(startMs = Date.parse("2030-01-01T00:00:00Z")) {
    this.#now = startMs;
  }

  now(): number {
    return this.#now;
  }

  /** The number of pending timers. */
  get timerCount(): number {
    return this.#timers.size;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    this.#order += 1;
    const timer = { at: this.#now + Math.max(0, delayMs), order: this.#order, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Runs callbacks and promise continuations that are already due, without advancing the virtual time. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  }

  /** Advances by `ms`, running each timer at its own time. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await this.settle();
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await this.settle();
    }
    this.#now = end;
  }

  /** Advances the time until `condition` is true; throws after `limitMs` of virtual time. */
  async until(
    condition: () => boolean,
    limitMs: number,
    what: string | (() => string),
  ): Promise<void> {
    const end = this.#now + limitMs;
    await this.settle();
    while (!condition()) {
      const next = this.#next(end);
      if (!next)
        throw new Error(`not within ${limitMs} ms: ${typeof what === "string" ? what : what()}`);
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await this.settle();
    }
  }

  #next(end: number): Timer | undefined {
    let best: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.at > end) continue;
      if (!best || timer.at < best.at || (timer.at === best.at && timer.order < best.order))
        best = timer;
    }
    return best;
  }
}

/**
 * The clock of one process that may be killed, with the same time as the virtual clock. After `kill`, none of its
 * timers run.
 */
export class ProcessClock implements Clock {
  readonly #clock: Clock;
  #alive = true;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    return this.#clock.setTimer(delayMs, () => {
      if (this.#alive) callback();
    });
  }

  kill(): void {
    this.#alive = false;
  }
}
