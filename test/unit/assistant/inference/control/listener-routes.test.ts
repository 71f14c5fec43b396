import Fastify from "fastify";
import { expect, test } from "vitest";
import { listenerRoutes } from "../../../../../src/assistant/inference/control/listener-routes.ts";

const listener = {
  address: "172.17.0.1",
  port: 7777,
  host: "models.berth.internal",
  subnets: ["172.18.0.0/16"],
};

async function put(body: object) {
  const opened: unknown[] = [];
  await using http = Fastify();
  listenerRoutes(http, async (listeners) => void opened.push(listeners));
  const answer = await http.inject({ method: "PUT", url: "/listeners", payload: body });
  return { status: answer.statusCode, text: answer.body, opened };
}

test("PUT /listeners opens the container listeners in its body, and lists them in the response", async () => {
  const { status, opened, text } = await put({ listeners: [listener] });
  expect(status).toBe(200);
  expect(opened).toEqual([[listener]]);
  expect(JSON.parse(text)).toEqual({ listeners: [listener] });
});

test("PUT /listeners with an empty list closes all container listeners", async () => {
  expect((await put({ listeners: [] })).opened).toEqual([[]]);
});

test.each([
  ["no list", {}],
  ["no networks", { listeners: [{ ...listener, subnets: [] }] }],
  ["an invalid port", { listeners: [{ ...listener, port: 0 }] }],
  ["a host with a port", { listeners: [{ ...listener, host: "models:1" }] }],
  ["too many listeners", { listeners: Array.from({ length: 9 }, () => listener) }],
])("PUT /listeners is refused: %s", async (_, body) => {
  const { status, opened } = await put(body);
  expect(status).toBe(400);
  expect(opened).toEqual([]);
});
