import type { Socket } from "node:net";

const responsesByCode: Readonly<Record<string, readonly [number, string, string]>> = {
  HPE_HEADER_OVERFLOW: [
    431,
    "Request Header Fields Too Large",
    "the request headers are too large",
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "the request took too long to arrive"],
};

/**
 * Responds to data that is not valid HTTP, which therefore reaches no route. `toBody` converts the message to the
 * server's own error format.
 */
export function answerMalformedRequest(
  error: Error & { code?: string },
  socket: Socket,
  toBody: (message: string) => unknown,
): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  const [status, title, message] = responsesByCode[error.code ?? ""] ?? [
    400,
    "Bad Request",
    "the request is not valid HTTP",
  ];
  const body = JSON.stringify(toBody(message));
  if (socket.writable) {
    socket.write(
      `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroySoon();
}
