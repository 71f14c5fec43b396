/** A bound on how long something may take; `signal` follows the parent too. To be disposed when it is over. */
export interface TimeLimit extends Disposable {
  readonly signal: AbortSignal;
}

/** setTimeout holds its delay in 31 bits, 24 days; a longer one would fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/**
 * AbortSignal.any over an AbortSignal.timeout that nobody else holds may be collected as garbage by
 * Node 22.14 while it is waited for, and then never aborts. This one has a timer of its own.
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
