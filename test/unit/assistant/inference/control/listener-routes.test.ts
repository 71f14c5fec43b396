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

test("the container listeners of a request are opened, and listed in the response", async () => {
  const { status, opened, text } = await put({ listeners: [listener] });
  expect(status).toBe(200);
  expect(opened).toEqual([[listener]]);
  expect(JSON.parse(text)).toEqual({ listeners: [listener] });
});

test("an empty list closes all container listeners", async () => {
  expect((await put({ listeners: [] })).opened).toEqual([[]]);
});

test.each([
  ["no list", {}],
  ["no networks", { listeners: [{ ...listener, subnets: [] }] }],
  ["a port that is none", { listeners: [{ ...listener, port: 0 }] }],
  ["a host with a port", { listeners: [{ ...listener, host: "models:1" }] }],
  ["too many", { listeners: Array.from({ length: 9 }, () => listener) }],
])("the list of container listeners %s is refused", async (_, body) => {
  const { status, opened } = await put(body);
  expect(status).toBe(400);
  expect(opened).toEqual([]);
});
