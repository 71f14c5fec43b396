import { type FSWatcher, watch } from "node:fs";
import type { Socket } from "node:net";
import { basename } from "node:path";
import { type Clock, delay } from "../../../../base/clock.ts";
import { openSocket } from "../open-socket.ts";
import type { SocketFolder } from "../socket-folder.ts";

/** A socket file comes with bind; from then to listen, which nothing tells of, it is microseconds mostly. */
const REFUSED_RETRY_MS = 5;
/** Where the folder cannot be watched, an event is missed, or the socket is one that a crash left behind. */
const POLL_INTERVAL_MS = 200;

/** Resolves to a connection when the app listens; rejects with the signal's reason, and as `folder.find` does. */
export async function waitForSocket(options: {
  readonly appId: string;
  readonly folder: SocketFolder;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): Promise<Socket> {
  const { appId, folder, clock, signal } = options;
  const { path } = await folder.find(appId);
  let pause = new AbortController();
  let hasCome = false;
  let refusedMs = REFUSED_RETRY_MS;
  const watcher = watchFolder(folder.path, basename(path), () => {
    hasCome = true;
    refusedMs = REFUSED_RETRY_MS;
    pause.abort();
  });
  try {
    for (;;) {
      hasCome = false;
      const { isThere } = await folder.find(appId);
      const socket = isThere ? await openSocket(path, signal) : undefined;
      if (socket) return socket;
      signal.throwIfAborted();
      if (hasCome) continue;
      pause = new AbortController();
      const waitMs = isThere ? refusedMs : POLL_INTERVAL_MS;
      refusedMs = Math.min(2 * refusedMs, POLL_INTERVAL_MS);
      await delay(clock, waitMs, AbortSignal.any([signal, pause.signal])).catch(() => {});
      signal.throwIfAborted();
    }
  } finally {
    watcher?.close();
  }
}

/** Undefined where there are no watches left. */
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
