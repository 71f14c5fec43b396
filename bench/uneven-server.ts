import { open } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const CHUNK_BYTES = 64 * 1024;

/**
 * Serves a file, with ranges, to connections of different speeds. Of every four connections, the second gets
 * `slowBytesPerSecond`, and the other three get `bytesPerSecond`.
 */
export async function startUnevenServer(options: {
  readonly file: string;
  readonly sizeBytes: number;
  readonly bytesPerSecond: number;
  readonly slowBytesPerSecond: number;
}): Promise<{ readonly url: string; readonly restart: () => void; readonly close: () => void }> {
  const { file, sizeBytes, bytesPerSecond, slowBytesPerSecond } = options;
  let connections = 0;
  const rates = new WeakMap<object, number>();
  const server = createServer((request, response) => void send(request, response));
  server.on("connection", (socket) => {
    rates.set(socket, connections % 4 === 1 ? slowBytesPerSecond : bytesPerSecond);
    connections += 1;
  });
  async function send({ headers, socket }: IncomingMessage, response: ServerResponse) {
    const range = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? "");
    const start = Number(range?.[1] ?? 0);
    const end = range?.[2] ? Number(range[2]) + 1 : sizeBytes;
    response.writeHead(range ? 206 : 200, {
      etag: '"1"',
      "content-length": end - start,
      ...(range && { "content-range": `bytes ${start}-${end - 1}/${sizeBytes}` }),
    });
    const bytesPerMs = (rates.get(socket) ?? bytesPerSecond) / 1000;
    const handle = await open(file);
    const since = performance.now();
    for (let at = start; at < end && !response.destroyed; ) {
      const length = Math.min(CHUNK_BYTES, end - at);
      const { buffer } = await handle.read(Buffer.alloc(length), 0, length, at);
      response.write(buffer);
      at += length;
      await sleep(Math.max(0, (at - start) / bytesPerMs - (performance.now() - since)));
    }
    await handle.close();
    response.end();
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server has an address object
  const { port } = server.address() as AddressInfo;
  const restart = () => {
    connections = 0;
    server.closeAllConnections();
  };
  return {
    url: `http://127.0.0.1:${port}/`,
    restart,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
