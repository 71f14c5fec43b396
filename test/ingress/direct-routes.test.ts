import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { FolderRouteTable } from "../../src/controller/ingress/folder-route-table.ts";
import { type Backend, startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { FakeRuntime } from "../support/fake-runtime.ts";
import { freePorts } from "../support/free-port.ts";
import { openWebSocket } from "../support/web-socket.ts";

/** Tests of Apps whose targets are part of Caddy's configuration. */

const HOST = "web.localhost";
let harness: CaddyHarness;
let one: Backend;
let two: Backend;
let three: Backend;

beforeAll(async () => {
  one = await startBackend("one");
  two = await startBackend("two");
  three = await startBackend("three");
});
afterAll(() => Promise.all([one, two, three].map((backend) => backend[Symbol.asyncDispose]())));
beforeEach(async () => {
  harness = await CaddyHarness.open();
  await harness.waitUntilReady();
});
afterEach(() => harness[Symbol.asyncDispose]());

const write = (version: string, ...targets: string[]) =>
  harness.ingress.table.write("web", { version, targets });
const table = () => join(harness.dataDir, "ingress", "table");
/**
 * Returns the slots of the direct route, such as `a`, that have a marker file for the host of `web`. Caddy uses a
 * slot's targets only while the marker exists.
 */
const listMarkers = () =>
  readdirSync(join(table(), "direct"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(`/${HOST}`))
    .map((path) => path.split("/")[1]);

/** Counts the configurations that Caddy has loaded. */
const countLoads = () =>
  readFileSync(join(harness.dataDir, "ingress", "caddy.log"), "utf8").split("load complete").length;

/**
 * Adds the App `web`, and then another App whose options change Caddy's configuration, so that `web` gets a direct
 * route.
 */
async function addDirectApp(...targets: string[]): Promise<void> {
  harness.apply("web");
  await harness.waitForVerdict("web");
  await write("v1", ...targets);
  expect(listMarkers()).toEqual([]);
  harness.apply("special", { ingress: { pathPrefix: "/in" } });
  await harness.waitForVerdict("special");
  expect(listMarkers()).toEqual(["a"]);
}

/** Removes the targets of `web` from the route table, so that only a direct route can serve the App. */
function hideTable(): void {
  for (const name of readdirSync(join(table(), "apps", "web")))
    rmSync(join(table(), "apps", "web", name), { recursive: true });
}

describe("an App that has targets when the configuration is loaded", () => {
  it("is served by its direct route without the route table", async () => {
    await addDirectApp(one.target);
    hideTable();
    expect((await harness.get(HOST)).body).toBe("one");
    expect(one.seen.at(-1)?.headers["x-real-ip"]).toBe("127.0.0.1");
    await harness.get(HOST, "/", { "x-forwarded-prefix": "/forged" });
    expect(one.seen.at(-1)?.headers["x-forwarded-prefix"]).toBeUndefined();
    expect((await harness.get("WEB.localhost")).status).toBe(503);
  });

  it("is served through the route table after a switch to other targets, and directly after a switch back", async () => {
    await addDirectApp(one.target);
    await write("v2", two.target);
    expect(listMarkers()).toEqual([]);
    expect((await harness.get(HOST)).body).toBe("two");
    await write("v3", one.target);
    expect(listMarkers()).toEqual(["a"]);
    expect((await harness.get(HOST)).body).toBe("one");
    await write("v3");
    expect((await harness.get(HOST)).status).toBe(503);
  });

  it("spreads requests over its replicas, and loses none when a replica is unreachable", async () => {
    const [gone = 0] = await freePorts(1);
    await addDirectApp(one.target, two.target, `127.0.0.1:${gone}`);
    hideTable();
    const answers = await Promise.all(Array.from({ length: 60 }, () => harness.get(HOST)));
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(["one", "two"]));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("is served at the new address of a restarted container, without a load of the configuration", async () => {
    await addDirectApp(one.target);
    const host = await harness.ingress.table.retainTargets("web", new Set([two.target]));
    expect(host?.targets).toEqual([]);
    await write("v1", two.target);
    expect((await harness.get(HOST)).body).toBe("two");
  });

  it("is served by its current target after each of many switches, and a WebSocket of another App stays open", async () => {
    await addDirectApp(one.target);
    harness.apply("chat");
    await harness.waitForVerdict("chat");
    await harness.ingress.table.write("chat", { version: "v1", targets: [three.target] });
    const socket = await openWebSocket(harness.httpPort, "chat.localhost");
    const failures: string[] = [];
    const sides = [one, two, three];
    const load = { isOver: false };
    const visit = async (method: string) => {
      while (!load.isOver) {
        const answer = await harness
          .send({ host: HOST, method })
          .catch((error: Error) => ({ status: 0, body: error.message }));
        if (answer.status !== 200) failures.push(`${method} ${answer.status} ${answer.body}`);
      }
    };
    const visitors = Array.from({ length: 8 }, (_, index) => visit(index % 4 ? "GET" : "POST"));
    for (let round = 0; round < 21; round += 1) {
      const side = sides[round % 3] ?? one;
      await write(`v${round + 2}`, side.target);
      expect((await harness.get(HOST)).body).toBe(side.name);
      await socket.echo(`round ${round}`);
    }
    load.isOver = true;
    await Promise.all(visitors);
    socket.close();
    expect(failures).toEqual([]);
  });

  it("gets a marker file for its new targets with the next configuration, and the marker files of the earlier configuration are removed", async () => {
    await addDirectApp(one.target);
    const [generation = ""] = readdirSync(join(table(), "direct"));
    await write("v2", two.target);
    harness.apply("special", { ingress: { pathPrefix: "/other" } });
    await harness.waitUntil(
      () => !existsSync(join(table(), "direct", generation)),
      () => "the earlier markers are there still",
    );
    expect(listMarkers()).toEqual(["a"]);
    expect((await harness.get(HOST)).body).toBe("two");
  });
});

describe("an App with two addresses for each replica", () => {
  /**
   * The backends of two versions with two replicas each. Like the addresses that Berth reserves, the two addresses of a
   * replica differ only in the last bit.
   */
  const versions: Backend[][] = [[], []];
  let other: Backend;
  beforeAll(async () => {
    const [port = 0] = await freePorts(1);
    const start = (name: string, host: string) => startBackend(name, 0, { host, port });
    versions[0] = [await start("even", "127.9.128.2"), await start("even", "127.9.128.4")];
    versions[1] = [await start("odd", "127.9.128.3"), await start("odd", "127.9.128.5")];
    other = await start("other", "127.9.0.2");
  });
  afterAll(() =>
    Promise.all([...versions.flat(), other].map((backend) => backend[Symbol.asyncDispose]())),
  );
  beforeEach(async () => {
    await harness[Symbol.asyncDispose]();
    const runtime = new FakeRuntime({ clock: systemClock });
    runtime.reservedRange = () => Promise.resolve("127.9.128.0/17");
    harness = await CaddyHarness.open({ runtime });
    await harness.waitUntilReady();
  });
  const targetsOf = (version: number) => (versions[version] ?? []).map(({ target }) => target);

  it("is served directly over any number of switches, without a load of the configuration", async () => {
    await addDirectApp(...targetsOf(0));
    const socket = await openWebSocket(harness.httpPort, HOST);
    const loads = countLoads();
    for (let round = 1; round <= 7; round += 1) {
      await write(`v${round}`, ...targetsOf(round % 2));
      expect(listMarkers()).toEqual([round % 2 === 0 ? "a" : "b"]);
      if (round > 5) hideTable();
      const answers = await Promise.all(Array.from({ length: 20 }, () => harness.get(HOST)));
      const name = round % 2 === 0 ? "even" : "odd";
      expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([name]));
    }
    for (const { seen } of versions.flat()) expect(seen.length).toBeGreaterThan(0);
    await socket.echo("kept");
    socket.close();
    expect(countLoads()).toBe(loads);
  });

  it("is served through the route table while its targets equal neither of its two lists of reserved addresses", async () => {
    await addDirectApp(...targetsOf(0));
    for (const targets of [
      [other.target],
      targetsOf(1).slice(1),
      [targetsOf(0)[0] ?? "", targetsOf(1)[1] ?? ""],
    ]) {
      await write("v2", ...targets);
      expect(listMarkers()).toEqual([]);
      expect((await harness.get(HOST)).status).toBe(200);
    }
    await write("v3", ...targetsOf(1));
    expect(listMarkers()).toEqual(["b"]);
  });

  it("is served directly after a restart of Berth, which loads no configuration into Caddy", async () => {
    await addDirectApp(...targetsOf(0));
    await write("v2", ...targetsOf(1));
    const loads = countLoads();
    await harness.stopBerth();
    await harness.boot();
    await harness.waitUntilReady();
    expect(listMarkers()).toEqual(["b"]);
    await write("v3", ...targetsOf(0));
    expect(listMarkers()).toEqual(["a"]);
    expect((await harness.get(HOST)).body).toBe("even");
    expect(countLoads()).toBe(loads);
  });

  it("is served through the route table after a switch if the engine did not report the reserved addresses before the configuration was loaded", async () => {
    await harness[Symbol.asyncDispose]();
    const runtime = new FakeRuntime({ clock: systemClock });
    runtime.reservedRange = () => Promise.reject(new Error("away"));
    harness = await CaddyHarness.open({ runtime });
    await harness.waitUntilReady();
    await addDirectApp(...targetsOf(0));
    await write("v2", ...targetsOf(1));
    expect(listMarkers()).toEqual([]);
    expect((await harness.get(HOST)).body).toBe("odd");
  });
});

describe("a Berth that is killed", () => {
  it("after it has changed an App's route but not the marker of its direct route keeps the old version serving until the next start", async () => {
    await addDirectApp(one.target);
    await harness.stopBerth();
    // This FolderRouteTable has no direct routes, so it writes the table and does not move the marker, like a Berth
    // that is killed between these two changes.
    const folder = table();
    const direct = join(folder, "direct");
    const killed = new FolderRouteTable({ folder, clock: systemClock });
    await killed.write("web", { version: "v2", targets: [two.target] });
    expect(listMarkers()).toEqual(["a"]);
    expect((await harness.get(HOST)).body).toBe("one");
    await harness.boot();
    expect((await harness.get(HOST)).body).toBe("two");
    await harness.waitUntilReady();
    expect((await harness.get(HOST)).body).toBe("two");
    expect(existsSync(direct)).toBe(true);
    await write("v3", one.target);
    expect(listMarkers()).toEqual(["a"]);
  });

  it("leaves direct routes that the next Berth uses without a load of the configuration", async () => {
    await addDirectApp(one.target);
    const socket = await openWebSocket(harness.httpPort, HOST);
    await harness.stopBerth();
    await harness.boot();
    await harness.waitUntilReady();
    expect(listMarkers()).toEqual(["a"]);
    await socket.echo("kept");
    socket.close();
  });
});

describe("a host with a direct route", () => {
  it("is no longer served directly as soon as it has a password, or belongs to another App", async () => {
    await addDirectApp(one.target);
    harness.applySecret("users", { me: "a password" });
    harness.apply("web", { ingress: { basicAuth: { secret: "users" } } });
    await harness.waitForVerdict("web");
    expect((await harness.get(HOST)).status).toBe(401);
    expect(listMarkers()).toEqual([]);
  });

  it("is answered with 404 after its App was deleted, and can be claimed by another App", async () => {
    await addDirectApp(one.target);
    harness.delete("web");
    await harness.ingress.table.remove("web");
    expect((await harness.get(HOST)).status).not.toBe(200);
    await harness.waitUntil(
      async () => (await harness.get(HOST)).status === 404,
      () => "the host is known still",
    );
    harness.apply("heir", { domain: HOST });
    await harness.waitForVerdict("heir");
    await harness.ingress.table.write("heir", { version: "v1", targets: [two.target] });
    expect((await harness.get(HOST)).body).toBe("two");
  });
});
