import { connect, type Socket } from "node:net";

/**
 * Connects to the socket at `path`. Resolves to undefined if no process listens there now (no such socket, a socket
 * left behind, a full backlog). Rejects with the signal's reason.
 */
export function openSocket(path: string, signal: AbortSignal): Promise<Socket | undefined> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const socket = connect({ path });
    const settle = (done: () => void) => {
      signal.removeEventListener("abort", onAbort);
      socket.off("connect", onConnect);
      done();
    };
    const onAbort = () => {
      settle(() => reject(signal.reason));
      socket.destroy();
    };
    const onConnect = () => settle(() => resolve(socket));
    signal.addEventListener("abort", onAbort, { once: true });
    socket.once("connect", onConnect);
    // The error listener is never removed, because an "error" event without a listener would end the process.
    socket.on("error", () => settle(() => resolve(undefined)));
  });
}
