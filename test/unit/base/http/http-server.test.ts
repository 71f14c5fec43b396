import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createHttpServer } from "../../../../src/base/http/http-server.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

let clock: VirtualClock;
let http: ReturnType<typeof createHttpServer>;
let port: number;
let ends: [path: string, isSent: boolean][];
let begun: number;
let release: () => void;
const clients: Socket[] = [];

beforeEach(async () => {
  clock = new VirtualClock();
  ends = [];
  begun = 0;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  http = createHttpServer({
    clock,
    closeGraceMs: 2_000,
    onClosing: () => {},
    toMalformedResponse: (_status, message) => ({ body: { error: message } }),
    jsonContentType: /^application\/json$/,
    parseJson: (body) => JSON.parse(body.toString()),
    fastify: {},
  });
  http.server.addHook("onRequest", async ({ raw, url }, reply) => {
    begun += 1;
    http.connections.onEnd(raw.socket, reply.raw, (isSent) => ends.push([url, isSent]));
  });
  http.server.get("/now", async () => "now");
  http.server.get("/later", async () => {
    await released;
    return "later";
  });
  port = Number(new URL(await http.server.listen({ host: "127.0.0.1", port: 0 })).port);
});

afterEach(async () => {
  release();
  for (const client of clients.splice(0)) client.destroy();
  await http.server.close();
});

/** Opens a connection whose own half stays open until the test closes it. */
async function open(...paths: string[]): Promise<Socket> {
  const client = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  clients.push(client);
  await once(client, "connect");
  const expected = begun + paths.length;
  for (const path of paths) client.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  await expect.poll(() => [http.connections.open, begun]).toEqual([clients.length, expected]);
  return client;
}

test("closing the server ends idle connections at once, and others after their response", async () => {
  const silent = await open();
  const idle = await open("/now");
  const busy = await open("/later");
  const whole = text(busy);
  await expect.poll(() => ends).toEqual([["/now", true]]);
  const closed = http.server.close();
  await Promise.all([text(silent), text(idle)]);
  await expect.poll(() => http.connections.open).toBe(1);
  release();
  expect(await whole).toMatch(/\r\n\r\nlater$/);
  await closed;
  expect(ends).toEqual([
    ["/now", true],
    ["/later", true],
  ]);
});

test("closing the server ends requests that outlast the grace period", async () => {
  const busy = await open("/later");
  const whole = text(busy);
  const closed = http.server.close();
  await expect.poll(() => clock.timerCount).toBe(1);
  await clock.advance(2_000);
  expect(await whole).toBe("");
  await closed;
  expect(ends).toEqual([["/later", false]]);
});

test("a client that disconnects ends all its pipelined requests, each once", async () => {
  const client = await open("/later", "/later?second", "/now");
  client.destroy();
  await expect
    .poll(() => ends)
    .toEqual([
      ["/later", false],
      ["/later?second", false],
      ["/now", false],
    ]);
  expect(http.connections.open).toBe(0);
});

test("a client that closes only its sending half counts as disconnected", async () => {
  const client = await open("/later");
  client.end();
  await expect.poll(() => ends).toEqual([["/later", false]]);
});

test("responses have a request id, which is the client's own if it is safe for a log", async () => {
  for (const [given, expected] of [
    ["mine-1", /^mine-1$/],
    ['a"b', /^[0-9a-f-]{36}$/],
  ] as const) {
    const { headers } = await fetch(`http://127.0.0.1:${port}/now`, {
      headers: { "x-request-id": given },
    });
    expect(headers.get("x-request-id")).toMatch(expected);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  }
});

test("data that is not HTTP gets an error in the server's format", async () => {
  const client = await open();
  client.write("EHLO mail\r\n\r\n");
  expect(await text(client)).toMatch(
    /^HTTP\/1\.1 400 Bad Request\r\n[^]*\r\n\r\n\{"error":"the request is not valid HTTP"\}$/,
  );
});
