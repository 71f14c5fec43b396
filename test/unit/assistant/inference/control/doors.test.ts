import Fastify from "fastify";
import { expect, test } from "vitest";
import { doorRoutes } from "../../../../../src/assistant/inference/control/doors.ts";

const door = {
  address: "172.17.0.1",
  port: 7777,
  host: "models.berth.internal",
  subnets: ["172.18.0.0/16"],
};

async function put(body: object) {
  const opened: unknown[] = [];
  await using http = Fastify();
  doorRoutes(http, async (doors) => void opened.push(doors));
  const answer = await http.inject({ method: "PUT", url: "/doors", payload: body });
  return { status: answer.statusCode, text: answer.body, opened };
}

test("the doors are opened as they were given", async () => {
  const { status, opened, text } = await put({ doors: [door] });
  expect(status).toBe(200);
  expect(opened).toEqual([[door]]);
  expect(JSON.parse(text)).toEqual({ doors: [door] });
});

test("none closes all", async () => {
  expect((await put({ doors: [] })).opened).toEqual([[]]);
});

test.each([
  ["no list", {}],
  ["no networks", { doors: [{ ...door, subnets: [] }] }],
  ["a port that is none", { doors: [{ ...door, port: 0 }] }],
  ["a host with a port", { doors: [{ ...door, host: "models:1" }] }],
  ["too many", { doors: Array.from({ length: 9 }, () => door) }],
])("%s is refused", async (_, body) => {
  const { status, opened } = await put(body);
  expect(status).toBe(400);
  expect(opened).toEqual([]);
});
