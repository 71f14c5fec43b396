import type { Clock } from "./clock.ts";

/**
 * Resolves when the promise has resolved or `limitMs` milliseconds are over, whichever comes first. Rejects with the
 * promise's error if it fails within that time; a later failure does not count as unhandled.
 */
export function waitAtMost(
  promise: Promise<unknown>,
  limitMs: number,
  clock: Clock,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = clock.setTimer(limitMs, resolve);
    promise.then(() => resolve(), reject).finally(cancel);
  });
}
