import type { Clock } from "../../../base/clock.ts";

/**
 * Settles like `call`, or rejects with the error that `createError` returns if `call` has not settled after `limitMs`.
 */
export function limitTime<T>(
  call: Promise<T>,
  limitMs: number,
  clock: Clock,
  createError: () => Error,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.setTimer(limitMs, () => reject(createError()));
    call.then(resolve, reject).finally(cancel);
  });
}
