import { type FSWatcher, watch } from "node:fs";
import type { Socket } from "node:net";
import { backoffMs } from "../../../../base/backoff.ts";
import { type Clock, delay } from "../../../../base/clock.ts";
import type { SocketFolder } from "../socket-folder.ts";

/**
 * The socket is also polled, because a folder may not be watchable, events may be missed, and a crash may leave a
 * dead socket behind.
 */
const POLL_INTERVAL_MS = 200;
/**
 * Back-off after a refused connection. The socket file appears with bind(2), mostly microseconds before listen(2), and
 * listen(2) causes no file event.
 */
const refusedBackoff = { firstMs: 5, maxMs: POLL_INTERVAL_MS };

/**
 * Resolves to a connection as soon as the app listens on its socket. Rejects with the signal's reason, or with the
 * errors of `folder.connect`.
 */
export async function waitForSocket(options: {
  readonly appId: string;
  readonly folder: SocketFolder;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): Promise<Socket> {
  const { appId, folder, clock, signal } = options;
  let pause = new AbortController();
  let hasCome = false;
  let attempts = 0;
  const watcher = watchFolder(folder.path, folder.getSocketName(appId), () => {
    hasCome = true;
    attempts = 0;
    pause.abort();
  });
  try {
    for (;;) {
      hasCome = false;
      const { isThere, socket } = await folder.connect(appId, signal);
      if (socket) return socket;
      signal.throwIfAborted();
      if (hasCome) continue;
      pause = new AbortController();
      const waitMs = isThere ? backoffMs(attempts, refusedBackoff) : POLL_INTERVAL_MS;
      attempts += 1;
      await delay(clock, waitMs, AbortSignal.any([signal, pause.signal])).catch(() => {});
      signal.throwIfAborted();
    }
  } finally {
    watcher?.close();
  }
}

/** Watches the folder; returns undefined if the system has no free file watches. */
function watchFolder(folder: string, name: string, onEvent: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, (_, changed) => {
      if (changed === null || changed === name) onEvent();
    });
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}
