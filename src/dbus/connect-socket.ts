import os from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { backoffMs } from "../base/backoff.ts";
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

const AF_UNIX = 1;
/** Size of the member `sun_path` of `struct sockaddr_un`. */
const PATH_BYTES_MAX = 108;

/**
 * Returns the `struct sockaddr_un` of a path; a path that begins with a NUL is a name in the abstract namespace.
 * Throws the errors of connect(2): `ENAMETOOLONG`, and `EINVAL` for a NUL after the first character.
 */
export function socketAddress(path: string): Buffer {
  const isAbstract = path.startsWith("\0");
  const name = Buffer.from(path, "utf8");
  if (name.includes(0, 1) || name.length === 0) {
    throw systemError("connect", -os.constants.errno.EINVAL, path);
  }
  // In a socket address, an abstract name extends to the end of the structure, but a path ends with a NUL byte.
  const bytes = Buffer.alloc(2 + name.length + (isAbstract ? 0 : 1));
  if (bytes.length > 2 + PATH_BYTES_MAX) {
    throw systemError("connect", -os.constants.errno.ENAMETOOLONG, path);
  }
  bytes.writeUInt16LE(AF_UNIX, 0);
  name.copy(bytes, 2);
  return bytes;
}
