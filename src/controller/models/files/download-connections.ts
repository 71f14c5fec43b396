import type { PartQueue } from "./part-queue.ts";

/** Downloads parts, one after the other; calls `onPart` when the server has begun to send one. */
export type ConnectionRun = (
  index: number,
  signal: AbortSignal,
  onPart: () => void,
) => Promise<void>;

/**
 * Runs one connection until the server has sent a part, then all of them. Resolves when all parts are written;
 * rejects with the first failure, or the signal's reason, once every connection has ended.
 */
export async function runConnections(
  parts: PartQueue,
  connectionsMax: number,
  connection: ConnectionRun,
  signal: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const ended = AbortSignal.any([signal, stop.signal]);
  let failure: { readonly error: unknown } | undefined;
  const run = async (index: number, onPart: () => void) => {
    try {
      await connection(index, ended, onPart);
    } catch (error) {
      failure ??= { error };
    }
    // The other connections may be waiting for parts, or for their turn to retry.
    if (failure || parts.isDone) stop.abort(new DOMException("over", "AbortError"));
  };
  const runs: Promise<void>[] = [];
  await new Promise<void>((resolve) => {
    runs.push(run(0, resolve).finally(resolve));
  });
  while (runs.length < connectionsMax) runs.push(run(runs.length, () => {}));
  await Promise.all(runs);
  if (parts.isDone) return;
  signal.throwIfAborted();
  throw failure?.error;
}
