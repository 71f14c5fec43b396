/** Its `signal` is aborted when the time is over or the parent is aborted. The owner disposes of it when the work is done. */
export interface TimeLimit extends Disposable {
  readonly signal: AbortSignal;
}

/** setTimeout stores its delay in 31 bits (24 days); a longer timer would fire immediately. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/**
 * Creates a time limit with a timer of its own. Node 22.14 may collect an AbortSignal.any over an otherwise
 * unreferenced AbortSignal.timeout as garbage, and then it is never aborted.
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
