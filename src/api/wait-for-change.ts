import type { Clock } from "../base/clock.ts";
import type { Kind } from "../resources/kinds.ts";
import type { ChangeHub } from "./change-hub.ts";

/**
 * The result of a wait that ended before `observe` returned an outcome: after the timeout, and also if the caller
 * disconnects or the server closes.
 */
export type TimedOut = { readonly type: "timed-out" };

/**
 * Waits without polling until `observe` returns an outcome. `observe` is called immediately, and after each change of
 * the resource in the store.
 */
export function waitForChange<T>(
  { hub, clock }: { readonly hub: ChangeHub; readonly clock: Clock },
  subject: { readonly kind: Kind; readonly name: string; readonly observe: () => T | undefined },
  timeoutMs: number,
  signal: AbortSignal,
): Promise<T | TimedOut> {
  return new Promise((resolve) => {
    const end = (outcome: T | TimedOut) => {
      unwatch();
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
      resolve(outcome);
    };
    const observeOnChange = () => {
      const outcome = subject.observe();
      if (outcome !== undefined) end(outcome);
    };
    const onAbort = () => end({ type: "timed-out" });
    const unwatch = hub.onResourceChange(subject.kind, subject.name, observeOnChange);
    const cancelTimer = clock.setTimer(timeoutMs, onAbort);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    else observeOnChange();
  });
}
