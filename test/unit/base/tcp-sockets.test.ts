import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { parseTcpSockets, TCP_STATE } from "../../../src/base/tcp-sockets.ts";

test.each([
  ["127.0.0.1", "/proc/net/tcp", "127.0.0.1"],
  ["::1", "/proc/net/tcp6", "0000:0000:0000:0000:0000:0000:0000:0001"],
])(
  "the kernel's table lists a server on %s with its address, port, user and inode",
  async (host, file, address) => {
    const server = createServer().listen(0, host);
    await once(server, "listening");
    const bound = server.address();
    const port = typeof bound === "object" && bound !== null ? bound.port : 0;
    const found = parseTcpSockets(readFileSync(file, "utf8")).filter(
      (socket) => socket.port === port,
    );
    server.close();
    expect(found).toEqual([
      {
        address,
        port,
        remoteAddress: address.replaceAll(/[1-9]\d*/g, "0"),
        remotePort: 0,
        state: TCP_STATE.listen,
        uid: process.getuid?.(),
        inode: expect.stringMatching(/^[1-9]\d*$/),
      },
    ]);
  },
);

test("headers, empty lines and other text in the kernel's table of sockets are ignored", () => {
  expect(parseTcpSockets("  sl  local_address\n\n  0: 0100007F 0 0A\nnone")).toEqual([]);
});
