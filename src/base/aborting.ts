/**
 * What `waited` comes to, or the signal's reason where it aborts first; what is waited for goes on
 * then, and its failure is nobody's any more.
 */
export function untilAborted<T>(waited: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      waited.catch(() => {});
      reject(signal.reason);
      return;
    }
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    waited.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
