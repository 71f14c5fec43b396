import type { Clock } from "../../base/clock.ts";

/**
 * The minimum interval between two resolutions of a source. It applies even if a spec sets a shorter one, to limit the
 * load on the git server.
 */
const INTERVAL_MIN_MS = 1_000;

interface Timer {
  readonly dueMs: number;
  readonly cancel: () => void;
}

/**
 * The timers of the next resolution of each App's source. The interval counts from the last resolution, successful
 * or not.
 */
export class SourceTimers {
  readonly #clock: Clock;
  readonly #onDue: (app: string) => void;
  readonly #timers = new Map<string, Timer>();
  readonly #lastResolvedMs = new Map<string, number>();

  constructor(clock: Clock, onDue: (app: string) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /**
   * Starts the timer for the next resolution of the App's source. `sinceMs` is the time of the last resolution that the
   * store contains. A second call with the same values has no effect.
   */
  arm(app: string, intervalMs: number, sinceMs: number): void {
    const now = this.#clock.now();
    // A clock that was set back must not delay the next resolution.
    const last = Math.min(now, Math.max(sinceMs, this.#lastResolvedMs.get(app) ?? 0));
    const dueMs = last + Math.max(intervalMs, INTERVAL_MIN_MS);
    const known = this.#timers.get(app);
    if (known?.dueMs === dueMs) return;
    known?.cancel();
    const cancel = this.#clock.setTimer(Math.max(0, dueMs - now), () => {
      this.#timers.delete(app);
      // The start of a resolution is recorded now, so that a resolution that fails or is skipped immediately is not
      // repeated without a delay.
      this.markResolved(app);
      this.#onDue(app);
    });
    this.#timers.set(app, { dueMs, cancel });
  }

  markResolved(app: string): void {
    this.#lastResolvedMs.set(app, this.#clock.now());
  }

  forget(app: string): void {
    this.#timers.get(app)?.cancel();
    this.#timers.delete(app);
    this.#lastResolvedMs.delete(app);
  }

  /** Stops all timers. */
  clear(): void {
    for (const { cancel } of this.#timers.values()) cancel();
    this.#timers.clear();
  }
}
