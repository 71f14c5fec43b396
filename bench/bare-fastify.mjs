// A bare Fastify server for comparison: it answers each GET /api/apps with the bytes from stdin, and prints its
// port.
import { buffer } from "node:stream/consumers";
import fastify from "fastify";

const payload = await buffer(process.stdin);
const server = fastify();
server.get("/api/apps", (_request, reply) =>
  reply.header("content-type", "application/json; charset=utf-8").send(payload),
);
const address = await server.listen({ host: "127.0.0.1", port: 0 });
console.log(new URL(address).port);
