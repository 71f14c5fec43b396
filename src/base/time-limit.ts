/** A bound on how long something may take; `signal` follows the parent too. To be disposed when it is over. */
export interface TimeLimit extends Disposable {
  readonly signal: AbortSignal;
}

/**
 * AbortSignal.any over an AbortSignal.timeout that nobody else holds may be collected as garbage by
 * Node 20 while it is waited for, and then never aborts. This one has a timer of its own.
 */
export function timeLimit(parent: AbortSignal, limitMs: number): TimeLimit {
  const bound = new AbortController();
  const follow = () => bound.abort(parent.reason);
  const timer = setTimeout(
    () => bound.abort(new DOMException("it took too long", "TimeoutError")),
    limitMs,
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
