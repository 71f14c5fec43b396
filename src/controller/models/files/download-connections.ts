import type { Segments } from "./segments.ts";

/** Brings parts, one after the other; calls `onPart` when the server has begun to send one. */
export type ConnectionRun = (
  index: number,
  signal: AbortSignal,
  onPart: () => void,
) => Promise<void>;

/**
 * Runs as many connections as may be, the first alone until it has shown that there are parts. Resolves when all
 * parts are there; rejects with the first failure, or the signal's reason, once every connection has ended.
 */
export async function runConnections(
  segments: Segments,
  connectionsMax: number,
  connection: ConnectionRun,
  signal: AbortSignal,
): Promise<void> {
  const siblings = new AbortController();
  const onAbort = () => siblings.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  let failure: { readonly error: unknown } | undefined;
  const running: Promise<void>[] = [];
  const connect = () => {
    const run = connection(running.length, siblings.signal, () => {
      while (running.length < connectionsMax) connect();
    });
    running.push(
      run
        .catch((error: unknown) => {
          failure ??= { error };
        })
        // One that fails ends all; so does one that finds everything done, for those that wait for work.
        .finally(() => {
          if (failure || segments.isDone) siblings.abort(new DOMException("over", "AbortError"));
        }),
    );
  };
  connect();
  for (let index = 0; index < running.length; index += 1) await running[index];
  signal.removeEventListener("abort", onAbort);
  if (segments.isDone) return;
  signal.throwIfAborted();
  throw failure?.error;
}
