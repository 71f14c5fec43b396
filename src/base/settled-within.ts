import type { Clock } from "./clock.ts";

/** Resolves when the promise has settled or `limitMs` are over, whichever is first. Never rejects. */
export function settledWithin(
  promise: Promise<unknown>,
  limitMs: number,
  clock: Clock,
): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.setTimer(limitMs, resolve);
    const settle = () => {
      cancel();
      resolve();
    };
    promise.then(settle, settle);
  });
}
