import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { findPeerSocket } from "../../../../../src/assistant/inference/http/peer-socket.ts";

let server: Server;
const sockets = new Set<Socket>();

beforeEach(async () => {
  server = createServer({ allowHalfOpen: true });
  await once(server.listen(0, "127.0.0.1"), "listening");
});

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await new Promise((resolve) => server.close(resolve));
});

/** Connects to the server, and returns both ends of the connection. */
async function open(options: { readonly host: string; readonly localAddress?: string }) {
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("it listens on no port");
  const accepted = once(server, "connection");
  const client = connect({ ...options, port: address.port });
  const [peer]: Socket[] = await accepted;
  if (!peer) throw new Error("the server accepted nothing");
  for (const socket of [client, peer]) sockets.add(socket);
  return { client, peer };
}

it.each(["127.0.0.1", "127.0.0.2"])(
  "findPeerSocket() finds the socket, and with it the user, of a program on %s",
  async (localAddress) => {
    const { peer } = await open({ host: "127.0.0.1", localAddress });
    expect(await findPeerSocket(peer)).toMatchObject({ uid: process.getuid?.() });
  },
);

it("findPeerSocket() finds the socket of a program that connects through an IPv6 socket", async () => {
  const { peer } = await open({ host: "::ffff:127.0.0.1" });
  expect(await findPeerSocket(peer)).toMatchObject({ uid: process.getuid?.() });
});

it("findPeerSocket() finds no socket if the program has closed its socket, which the kernel then lists as root's", async () => {
  const { client, peer } = await open({ host: "127.0.0.1" });
  client.destroy();
  await once(client, "close");
  expect(peer.remotePort).toBeTypeOf("number");
  expect(await findPeerSocket(peer)).toBeUndefined();
});
