import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly at: number;
}

/**
 * An app behind the ingress. It answers a request with the app's name; `/slow` after `slowMs`; `/upload` with the
 * number of bytes received; `/events` with an event stream that stays open; `/trickle` with the first part of a JSON
 * response that does not end. It echoes the bytes of a WebSocket.
 */
export interface Backend extends AsyncDisposable {
  readonly name: string;
  /** The address of the app as host:port. */
  readonly target: string;
  /** The requests that the app has received, in order, except upgrades to WebSockets. */
  readonly seen: readonly SeenRequest[];
}

export async function startBackend(
  name: string,
  slowMs = 5_000,
  { host, port }: { readonly host: string; readonly port: number } = { host: "127.0.0.1", port: 0 },
): Promise<Backend> {
  const seen: SeenRequest[] = [];
  const sockets = new Set<Duplex>();
  const server: Server = createServer((incoming, answer) => {
    const { method = "", url = "", headers } = incoming;
    seen.push({ method, url, headers, at: Date.now() });
    const path = url.split("?")[0];
    if (path === "/slow") {
      setTimeout(() => answer.end(`${name} slowly`), slowMs);
    } else if (path === "/upload") {
      let bytes = 0;
      incoming.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
      });
      incoming.on("end", () => answer.end(String(bytes)));
    } else if (path === "/events") {
      answer.writeHead(200, { "Content-Type": "text/event-stream" });
      answer.write(`data: ${name}\n\n`);
    } else if (path === "/trickle") {
      answer.writeHead(200, { "Content-Type": "application/json" });
      answer.write(`{"from":"${name}"}\n`);
    } else {
      answer.end(name);
    }
  });
  server.keepAliveTimeout = 5_000;
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex) => {
    const key = String(incoming.headers["sec-websocket-key"]);
    const accept = createHash("sha1")
      .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    // After the handshake the connection carries raw bytes, which the app echoes.
    socket.on("data", (chunk: Buffer) => socket.write(chunk));
    socket.on("error", () => {});
  });
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    name,
    target: `${host}:${address.port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, "close");
    },
  };
}
