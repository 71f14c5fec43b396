import type { Clock } from "../../base/clock.ts";

/** More often than this no server wants to be asked, whatever a spec says. */
const INTERVAL_MIN_MS = 1_000;

interface Timer {
  readonly dueMs: number;
  readonly cancel: () => void;
}

/** When each App's source is to be looked at next. What was looked at counts from the last look, good or not. */
export class SourceTimers {
  readonly #clock: Clock;
  readonly #onDue: (app: string) => void;
  readonly #timers = new Map<string, Timer>();
  readonly #lastResolvedMs = new Map<string, number>();

  constructor(clock: Clock, onDue: (app: string) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** `sinceMs`: when the source was looked at last, as far as the store knows. Arming again with the same does nothing. */
  arm(app: string, intervalMs: number, sinceMs: number): void {
    const now = this.#clock.now();
    // A clock that was set back must not hold a look up until then.
    const last = Math.min(now, Math.max(sinceMs, this.#lastResolvedMs.get(app) ?? 0));
    const dueMs = last + Math.max(intervalMs, INTERVAL_MIN_MS);
    const known = this.#timers.get(app);
    if (known?.dueMs === dueMs) return;
    known?.cancel();
    const cancel = this.#clock.setTimer(Math.max(0, dueMs - now), () => {
      this.#timers.delete(app);
      // A look that fails at once, or does not begin, is no reason to ask without end.
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

  /** Nothing comes due any more. */
  clear(): void {
    for (const { cancel } of this.#timers.values()) cancel();
    this.#timers.clear();
  }
}
