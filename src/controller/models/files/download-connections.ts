import type { PartQueue } from "./part-queue.ts";

/**
 * Downloads parts of the file over one connection, one after the other. Calls `onPart` when the server has begun to
 * send a part.
 */
export type ConnectionRun = (
  index: number,
  signal: AbortSignal,
  onPart: () => void,
) => Promise<void>;

/**
 * Runs one connection, and adds the others when the server has sent the first part. Resolves when all parts are
 * written. If a connection fails or the signal aborts, rejects with the first error after every connection has ended.
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
    // The other connections are ended too, because they may be waiting for parts, or for their next retry.
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
