import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Backend, startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { readLoadedConfig } from "../support/loaded-caddy-config.ts";
import { buildNewerCaddy, NEWER_CADDY } from "../support/newer-caddy.ts";
import { openWebSocket } from "../support/web-socket.ts";

/**
 * Tests of the ingress with a Caddy that keeps WebSockets open when it loads a configuration, unlike the Caddy in
 * Debian's package.
 */

const BUILD_LIMIT_MS = 1_800_000;
let harness: CaddyHarness;
let one: Backend;
let two: Backend;

beforeAll(async () => {
  const searchPath = await buildNewerCaddy();
  harness = await CaddyHarness.open({ searchPath, https: true });
  one = await startBackend("one");
  two = await startBackend("two");
  await harness.waitUntilReady();
}, BUILD_LIMIT_MS);
afterAll(async () => {
  await harness?.[Symbol.asyncDispose]();
  await one?.[Symbol.asyncDispose]();
  await two?.[Symbol.asyncDispose]();
});

async function addApp(name: string): Promise<string> {
  harness.apply(name);
  await harness.waitForVerdict(name);
  await harness.ingress.table.write(name, { version: "v1", targets: [one.target] });
  return `${name}.localhost`;
}

const readConfig = async () => JSON.stringify(await readLoadedConfig(harness.dataDir));

test("the tests run with the newer Caddy", () => {
  expect(harness.ingress.state()).toMatchObject({ ready: true, version: NEWER_CADDY });
});

describe("an App whose redirects, domains and options change", () => {
  test("does not close a WebSocket of another App", async () => {
    const host = await addApp("chat");
    const sockets = [await openWebSocket(harness.httpPort, host)];
    await addApp("web");
    for (let round = 0; round < 20; round += 1) {
      const before = await readConfig();
      harness.apply("web", {
        ingress: {
          domains: [`web-${round}.example.org`],
          redirects: [{ from: `old-${round}.localhost` }],
          ...(round % 2 === 0 ? {} : { pathPrefix: "/in" }),
        },
      });
      await harness.waitForVerdict("web");
      expect(await readConfig()).not.toBe(before);
      expect((await harness.get(`old-${round}.localhost`)).status).toBe(307);
      for (const socket of sockets) await socket.echo(`round ${round}`);
      // From the first load of the configuration on, the App `chat` has a direct route; its WebSockets must stay open
      // too.
      sockets.push(await openWebSocket(harness.httpPort, host));
    }
    await harness.ingress.table.write("chat", { version: "v2", targets: [two.target] });
    for (const socket of sockets) {
      await socket.echo("after the switch");
      socket.close();
    }
  });
});

test("a switch of an App between its direct route and the route table loses no request", async () => {
  const host = await addApp("loaded");
  harness.apply("special", { ingress: { pathPrefix: "/special" } });
  await harness.waitForVerdict("special");
  const failures: string[] = [];
  const load = { isOver: false };
  const visit = async (method: string) => {
    while (!load.isOver) {
      const answer = await harness
        .send({ host, method })
        .catch((error: Error) => ({ status: 0, body: error.message }));
      if (answer.status !== 200) failures.push(`${method} ${answer.status} ${answer.body}`);
    }
  };
  const visitors = Array.from({ length: 8 }, (_, index) => visit(index % 4 ? "GET" : "POST"));
  for (let round = 0; round < 20; round += 1) {
    const side = round % 2 === 0 ? two : one;
    await harness.ingress.table.write("loaded", { version: `v${round}`, targets: [side.target] });
    expect((await harness.get(host)).body).toBe(side.name);
  }
  load.isOver = true;
  await Promise.all(visitors);
  expect(failures).toEqual([]);
});
