/**
 * What `waited` comes to, or the reason of the signal that aborts first; what is waited for goes on
 * then, and its failure is nobody's any more.
 */
export function untilAborted<T>(
  waited: Promise<T>,
  ...signals: readonly AbortSignal[]
): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = signals.find((signal) => signal.aborted);
    if (aborted) {
      waited.catch(() => {});
      reject(aborted.reason);
      return;
    }
    const listening = signals.map((signal) => {
      const onAbort = () => reject(signal.reason);
      signal.addEventListener("abort", onAbort, { once: true });
      return () => signal.removeEventListener("abort", onAbort);
    });
    waited.then(resolve, reject).finally(() => {
      for (const stop of listening) stop();
    });
  });
}
