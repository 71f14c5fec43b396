import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Knows which connections of a server have a request under way, so that closing waits for those and
 * for no others. Node's own closeIdleConnections leaves connections open that have not sent a
 * request yet, as browsers and fetch make ahead, and those that become idle after it was called.
 */
export class ConnectionDrainer {
  readonly #requestCounts = new Map<Socket, number>();
  #isClosing = false;

  constructor(server: Server) {
    server.on("connection", (socket: Socket) => {
      if (this.#isClosing) {
        socket.destroy();
        return;
      }
      this.#requestCounts.set(socket, 0);
      socket.once("close", () => this.#requestCounts.delete(socket));
    });
    server.on("request", ({ socket }, response) => {
      this.#addRequests(socket, 1);
      response.once("close", () => this.#addRequests(socket, -1));
    });
  }

  /** Ends each connection as soon as nothing is under way on it. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, requests] of this.#requestCounts) {
      if (requests === 0) socket.destroy();
    }
  }

  /** Ends those that are still there, whatever is under way. */
  destroyAll(): void {
    for (const socket of this.#requestCounts.keys()) socket.destroy();
  }

  #addRequests(socket: Socket, step: 1 | -1): void {
    const requests = this.#requestCounts.get(socket);
    if (requests === undefined) return;
    this.#requestCounts.set(socket, requests + step);
    if (this.#isClosing && requests + step === 0) socket.destroySoon();
  }
}
