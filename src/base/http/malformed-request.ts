import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import { closeLingering } from "./unread-body.ts";

export interface MalformedRequestResponse {
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The code of the error for a body that arrives too slowly. */
export const SLOW_BODY = "ERR_SLOW_BODY";

const responsesByCode: Readonly<Record<string, readonly [status: number, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, "the request headers are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "the request took too long to arrive"],
  [SLOW_BODY]: [408, "the body of the request arrived too slowly"],
};

/**
 * Responds to data that is not valid HTTP, which therefore reaches no route. `toResponse` converts the status and the
 * message to the server's own error format.
 */
export function answerMalformedRequest(
  error: Error & { code?: string },
  socket: Socket,
  clock: Clock,
  toResponse: (status: number, message: string) => MalformedRequestResponse,
): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  // If a response has been sent already, only the rest of the request is discarded.
  if (!socket.writable || Object.hasOwn(socket, "destroySoon")) {
    socket.destroy();
    return;
  }
  const [status, message] = responsesByCode[error.code ?? ""] ?? [
    400,
    "the request is not valid HTTP",
  ];
  const response = toResponse(status, message);
  const body = JSON.stringify(response.body);
  const headers = {
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": String(Buffer.byteLength(body)),
    Connection: "close",
    ...response.headers,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`);
  closeLingering(socket, clock);
}
