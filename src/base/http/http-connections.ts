import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * Called once when a request is over. `isSent` is false if the connection was lost before the whole response was sent.
 */
export type OnRequestEnd = (isSent: boolean) => void;

/**
 * Tracks the connections of a server and the requests in progress on each. A client that closes its sending half counts
 * as disconnected, because the server cannot see whether such a client still reads.
 *
 * Closing waits only for connections with requests in progress. Node's closeIdleConnections would leave two kinds of
 * connections open: those that have not sent a request yet, which browsers and fetch open in advance, and those that
 * become idle after the call.
 */
export class HttpConnections {
  /** The responses in progress on each connection, including those of pipelined requests, which wait for their turn. */
  readonly #responses = new Map<Socket, Map<ServerResponse, OnRequestEnd[]>>();
  #isClosing = false;

  constructor(server: Server) {
    server.on("connection", (socket: Socket) => {
      if (this.#isClosing) {
        socket.destroy();
        return;
      }
      this.#responses.set(socket, new Map());
      socket.once("close", () => this.#forget(socket));
    });
    // This listener must register the response before the listener that handles the request runs, because that listener
    // may call `onEnd`, which needs a registered response.
    server.prependListener("request", ({ socket }, response) => {
      this.#responses.get(socket)?.set(response, []);
      response.once("close", () => this.#end(socket, response));
    });
  }

  get open(): number {
    return this.#responses.size;
  }

  /** Adds a function that is called when a request is over. */
  onEnd(socket: Socket, response: ServerResponse, callback: OnRequestEnd): void {
    const callbacks = this.#responses.get(socket)?.get(response);
    if (callbacks) callbacks.push(callback);
    // The connection was closed before the callback was added, so the request is already over.
    else if (socket.destroyed) callback(false);
  }

  /** Closes each connection as soon as it has no requests in progress. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, responses] of this.#responses) {
      if (responses.size === 0) socket.destroy();
    }
  }

  /** Closes all connections that are still open, even if they have requests in progress. */
  destroyAll(): void {
    for (const socket of this.#responses.keys()) socket.destroy();
  }

  #end(socket: Socket, response: ServerResponse): void {
    const responses = this.#responses.get(socket);
    if (!responses) return;
    const callbacks = responses.get(response) ?? [];
    responses.delete(response);
    for (const callback of callbacks) callback(response.writableFinished);
    if (this.#isClosing && responses.size === 0) socket.destroySoon();
  }

  #forget(socket: Socket): void {
    const responses = this.#responses.get(socket);
    this.#responses.delete(socket);
    for (const [response, callbacks] of responses ?? [])
      for (const callback of callbacks) callback(response.writableFinished);
  }
}
