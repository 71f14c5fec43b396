import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";

/** A client has to send at least `bytesMin` of a request's body in each window of `windowMs`. */
export interface BodyRate {
  readonly windowMs: number;
  readonly bytesMin: number;
}

/**
 * Calls `onTooSlow` once for each request whose body arrives more slowly than `rate`. The time limit of Node for a whole
 * request fits no body: it lets a client hold a connection with single bytes until the limit, and ends a large upload
 * over a slow line that makes progress.
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
      // After its response, the server limits the time for the rest of a body in another way: see drainUnreadBodies.
      if (request.complete || response.headersSent) return;
      const isSlow = socket.bytesRead - bytes < bytesMin;
      bytes = socket.bytesRead;
      // If received data waits for the server, the server is the slow side.
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
