import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Closes the connections of a server, and waits only for those with a running request. Node's closeIdleConnections
 * leaves connections open that have not sent a request yet, which browsers and fetch open in advance, and those that
 * become idle later.
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

  /** Closes each connection as soon as it has no running request. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, requests] of this.#requestCounts) {
      if (requests === 0) socket.destroy();
    }
  }

  /** Closes all remaining connections, also those with running requests. */
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
