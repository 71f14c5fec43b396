import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";

/** A client has to send at least `bytesMin` of a request's body in each window of `windowMs`. */
export interface BodyRate {
  readonly windowMs: number;
  readonly bytesMin: number;
}

/**
 * Calls `onTooSlow` once for each request whose body arrives more slowly than `rate`. Node's time limit for a whole
 * request does not suit bodies: until the limit, a client can keep a connection open by sending single bytes, and a
 * large upload over a slow line fails although it makes progress.
 */
export function detectSlowBodies(
  server: Server,
  clock: Clock,
  { windowMs, bytesMin }: BodyRate,
  onTooSlow: (socket: Socket) => void,
): void {
  server.prependListener("request", (request, response) => {
    if (!hasBody(request)) return;
    const { socket } = request;
    let bytes = socket.bytesRead;
    const check = () => {
      // After the response, `drainUnreadBodies` limits the time in which the client may send the rest of the body.
      if (request.complete || response.headersSent) return;
      const isSlow = socket.bytesRead - bytes < bytesMin;
      bytes = socket.bytesRead;
      // If data has arrived that the server has not read yet, the server is slow, not the client.
      if (isSlow && request.readableLength === 0) onTooSlow(socket);
      else cancel = clock.setTimer(windowMs, check);
    };
    let cancel = clock.setTimer(windowMs, check);
    response.once("close", () => cancel());
  });
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}
