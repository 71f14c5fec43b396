/**
 * Settles like `waited`, or rejects with the signal's reason if the signal aborts first. The awaited work then
 * continues, and its errors are ignored.
 */
export function raceWithAbort<T>(
  promise: Promise<T>,
  ...signals: readonly AbortSignal[]
): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = signals.find((signal) => signal.aborted);
    if (aborted) {
      promise.catch(() => {});
      reject(aborted.reason);
      return;
    }
    const listening = signals.map((signal) => {
      const onAbort = () => reject(signal.reason);
      signal.addEventListener("abort", onAbort, { once: true });
      return () => signal.removeEventListener("abort", onAbort);
    });
    promise.then(resolve, reject).finally(() => {
      for (const stop of listening) stop();
    });
  });
}

/** Resolves when the signal is aborted. */
export function waitForAbort(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
