/**
 * A time limit. Its `signal` aborts when the time is over or the parent's signal aborts. The owner disposes of the
 * limit when the work is done.
 */
export interface TimeLimit extends Disposable {
  readonly signal: AbortSignal;
}

/** Longest delay of setTimeout, which stores it in 31 bits (24 days); a longer timer would fire immediately. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/**
 * Creates a time limit with a timer of its own. AbortSignal.timeout is not used, because Node.js 22.14 may
 * garbage-collect an AbortSignal.any that contains it, and that signal then never aborts.
 */
export function createTimeLimit(parent: AbortSignal, limitMs: number): TimeLimit {
  const bound = new AbortController();
  const follow = () => bound.abort(parent.reason);
  const timer = setTimeout(
    () => bound.abort(new DOMException("it took too long", "TimeoutError")),
    Math.min(limitMs, TIMER_MAX_MS),
  );
  if (parent.aborted) follow();
  else parent.addEventListener("abort", follow, { once: true });
  return {
    signal: bound.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      parent.removeEventListener("abort", follow);
    },
  };
}
