import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Knows which connections of a server have a request under way, so that closing waits for those and
 * for no others. Node's own closeIdleConnections leaves connections open that have not sent a
 * request yet, as browsers and fetch make ahead, and those that become idle after it was called.
 */
export class Connections {
  readonly #requests = new Map<Socket, number>();
  #isClosing = false;

  constructor(server: Server) {
    server.on("connection", (socket: Socket) => {
      if (this.#isClosing) {
        socket.destroy();
        return;
      }
      this.#requests.set(socket, 0);
      socket.once("close", () => this.#requests.delete(socket));
    });
    server.on("request", ({ socket }, response) => {
      this.#count(socket, 1);
      response.once("close", () => this.#count(socket, -1));
    });
  }

  /** Ends each connection as soon as nothing is under way on it. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, requests] of this.#requests) {
      if (requests === 0) socket.destroy();
    }
  }

  /** Ends those that are still there, whatever is under way. */
  destroyAll(): void {
    for (const socket of this.#requests.keys()) socket.destroy();
  }

  #count(socket: Socket, step: 1 | -1): void {
    const requests = this.#requests.get(socket);
    if (requests === undefined) return;
    this.#requests.set(socket, requests + step);
    if (this.#isClosing && requests + step === 0) socket.destroySoon();
  }
}
