import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../clock.ts";

/**
 * The maximum number of bytes of a body that are discarded after the response. If the client sends more, the connection
 * is closed instead of being used for another request.
 */
const KEPT_OPEN_BYTES_MAX = 64 * 2 ** 20;
/** The time without data from the client after which the server no longer waits for the rest of a body. */
const IDLE_MS_MAX = 5_000;
/** The maximum time in which the server discards the rest of a body. After it, the server closes the connection. */
const DRAIN_MS_MAX = 30_000;

/**
 * Prepares a response that may precede the end of the request's body. Fastify would close the connection of a refused
 * body; that is only necessary for a body that is too large to be discarded.
 */
export function keepOpenForBody(request: FastifyRequest, reply: FastifyReply): void {
  if (Number(request.headers["content-length"] ?? 0) > KEPT_OPEN_BYTES_MAX)
    reply.header("connection", "close");
  else reply.removeHeader("connection");
}

/**
 * Makes a server read and discard the rest of each body that it has not read when it has sent the response. Many
 * clients send a body to its end before they read the response: they would wait until their connection breaks, and see
 * a network error, if the server stopped reading or closed the connection.
 */
export function drainUnreadBodies(server: Server, clock: Clock): void {
  server.prependListener("request", (request, response) => {
    // This listener has to run before Node's own listener, which closes the connection after its last response.
    response.prependOnceListener("finish", () => {
      if (!request.complete) drainBody(request, clock);
    });
  });
}

function drainBody(request: IncomingMessage, clock: Clock): void {
  const { socket } = request;
  let bytes = 0;
  const linger = new LingeringClose(socket, clock);
  request.unpipe();
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    linger.touch();
    if (bytes > KEPT_OPEN_BYTES_MAX) socket.destroySoon();
  });
  request.once("end", () => linger.end());
  request.resume();
}

/**
 * Ends a connection without a reset: sends the data that is queued on the socket, and discards the data that the client
 * still sends.
 */
export function closeLingering(socket: Socket, clock: Clock): void {
  const linger = new LingeringClose(socket, clock);
  // The listener of the HTTP parser is removed too, because the parser must not parse the discarded data.
  socket.removeAllListeners("data");
  socket.on("data", () => linger.touch());
  socket.destroySoon();
}

/**
 * Replaces `destroySoon` of a socket that still receives data: it ends the sending half only, and the connection is
 * closed when the client has sent everything, or after a time limit. If the kernel closed a connection with unread
 * data, it would reset the connection, and the client would lose the response.
 */
class LingeringClose {
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #cancelLimit: () => void;
  #cancelIdle: () => void;
  #isClosing = false;
  readonly #onEnd = () => this.end();

  constructor(socket: Socket, clock: Clock) {
    this.#socket = socket;
    this.#clock = clock;
    const stop = () => socket.destroy();
    this.#cancelLimit = clock.setTimer(DRAIN_MS_MAX, stop);
    this.#cancelIdle = clock.setTimer(IDLE_MS_MAX, stop);
    socket.destroySoon = () => {
      this.#isClosing = true;
      socket.end();
    };
    socket.on("end", this.#onEnd);
    socket.on("close", this.#onEnd);
  }

  /** Called when the client has sent something. */
  touch(): void {
    this.#cancelIdle();
    this.#cancelIdle = this.#clock.setTimer(IDLE_MS_MAX, () => this.#socket.destroy());
  }

  /** Called when the client has sent everything. */
  end(): void {
    this.#cancelLimit();
    this.#cancelIdle();
    // The listeners are removed, because the connection may be used for many more requests.
    this.#socket.off("end", this.#onEnd).off("close", this.#onEnd);
    Reflect.deleteProperty(this.#socket, "destroySoon");
    if (this.#isClosing) this.#socket.destroySoon();
  }
}
