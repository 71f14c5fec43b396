import os from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { backoffMs } from "../base/backoff.ts";
import { socketAddress } from "./socket-address.ts";
import type { SocketCalls } from "./socket-calls.ts";
import { systemError } from "./system-error.ts";

const EAGAIN = os.constants.errno.EAGAIN;
/** Back-off while the listener's backlog is full: usually it accepts connections again within a few milliseconds. */
const retryBackoff = { firstMs: 1, maxMs: 100 };

/**
 * Connects to a path and resolves to the descriptor, which the caller must close. While the listener's backlog is
 * full, the function tries again until the signal aborts, because no event reports free space. Rejects with the
 * system's error or the signal's reason.
 */
export async function connectSocket(
  calls: SocketCalls,
  path: string,
  signal: AbortSignal,
): Promise<number> {
  const address = socketAddress(path);
  signal.throwIfAborted();
  const fd = calls.open();
  if (fd < 0) throw systemError("socket", fd);
  try {
    for (let attempts = 0; ; attempts += 1) {
      const result = calls.connect(fd, address);
      if (result >= 0) return fd;
      if (result !== -EAGAIN) throw systemError("connect", result, path);
      await delay(backoffMs(attempts, retryBackoff), undefined, { signal });
    }
  } catch (error) {
    calls.close(fd);
    signal.throwIfAborted();
    throw error;
  }
}
