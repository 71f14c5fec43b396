import { connect, type Socket } from "node:net";

/**
 * A connection to the socket at `path`; undefined: nobody listens there just now (no such socket, one that
 * was left behind, a full queue). Rejects with the signal's reason.
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
    // Stays: a socket whose error nobody listens to ends the process.
    socket.on("error", () => settle(() => resolve(undefined)));
  });
}
