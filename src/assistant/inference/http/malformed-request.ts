import type { Socket } from "node:net";
import { AssistantError } from "../../assistant-error.ts";
import { createErrorEnvelope } from "./inference-error-response.ts";

const responsesByCode: Readonly<Record<string, readonly [number, string, string]>> = {
  HPE_HEADER_OVERFLOW: [
    431,
    "Request Header Fields Too Large",
    "the headers of the request are too large",
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "the request took too long to arrive"],
};

/** Responds to data that is not valid HTTP, in the usual error format. Such a request never reaches a route. */
export function answerMalformedRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  const [status, title, message] = responsesByCode[error.code ?? ""] ?? [
    400,
    "Bad Request",
    "the request is not valid HTTP",
  ];
  const body = JSON.stringify(createErrorEnvelope(new AssistantError("invalid_request", message)));
  if (socket.writable) {
    socket.write(
      `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroySoon();
}
