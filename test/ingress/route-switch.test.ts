import { readdirSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Backend, startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { freePorts } from "../support/free-port.ts";
import { openWebSocket } from "../support/web-socket.ts";

/** Tests of route switches under load, with the real Caddy. */

let harness: CaddyHarness;
let one: Backend;
let two: Backend;

beforeAll(async () => {
  harness = await CaddyHarness.open();
  one = await startBackend("one");
  two = await startBackend("two");
  await harness.waitUntilReady();
});
afterAll(async () => {
  await harness[Symbol.asyncDispose]();
  await one[Symbol.asyncDispose]();
  await two[Symbol.asyncDispose]();
});

async function addApp(name: string, ...targets: readonly string[]): Promise<string> {
  harness.apply(name);
  await harness.waitForVerdict(name);
  await harness.ingress.table.write(name, { version: "v0", targets });
  return `${name}.localhost`;
}

describe("a switch of an App to another target", () => {
  it("loses none of 5,000 requests in 50 switches, and sends none to the old target afterwards", async () => {
    const host = await addApp("loaded", one.target);
    const load = { sent: 0 };
    const failures: string[] = [];
    const late: string[] = [];
    // The targets that may answer a new request: during a switch, both the old and the new target.
    let allowed = new Set(["one"]);
    const client = async () => {
      while (load.sent < 5_000) {
        load.sent += 1;
        const sides = allowed;
        const { status, body } = await harness
          .send({ host, method: load.sent % 5 === 0 ? "POST" : "GET" })
          .catch((error: Error) => ({ status: 0, body: error.message }));
        if (status !== 200) failures.push(`${status} ${body}`);
        else if (!sides.has(body) && sides === allowed) late.push(body);
      }
    };
    const clients = Array.from({ length: 16 }, client);
    let switches = 0;
    const switching = async () => {
      for (let round = 1; round <= 50; round += 1) {
        const side = round % 2 === 0 ? one : two;
        allowed = new Set(["one", "two"]);
        await harness.ingress.table.write("loaded", {
          version: `v${round}`,
          targets: [side.target],
        });
        allowed = new Set([side.name]);
        switches += 1;
        const goal = Math.min(4_900, Math.round((round * 5_000) / 52));
        while (load.sent < goal) await wait(2);
      }
    };
    await Promise.all([switching(), ...clients]);
    expect(failures).toEqual([]);
    expect(late).toEqual([]);
    expect(switches).toBe(50);
    expect(load.sent).toBeGreaterThanOrEqual(5_000);
    expect(one.seen.length).toBeGreaterThan(1_000);
    expect(two.seen.length).toBeGreaterThan(1_000);
  });

  it("completes a running request at its old target", async () => {
    const host = await addApp("slow", one.target);
    const before = one.seen.length;
    const slow = harness.get(host, "/slow");
    await expect.poll(() => one.seen.length).toBe(before + 1);
    await harness.ingress.table.write("slow", { version: "v1", targets: [two.target] });
    expect((await harness.get(host)).body).toBe("two");
    expect((await slow).body).toBe("one slowly");
  });

  it("sends a GET whose old target has died to the new target, and no POST", async () => {
    let connections = 0;
    const dying = createServer((socket) => {
      connections += 1;
      socket.once("data", () => socket.destroy());
    });
    await new Promise<void>((resolve) => dying.listen(0, "127.0.0.1", resolve));
    const address = dying.address();
    const port = typeof address === "object" ? address?.port : undefined;
    const host = await addApp("dying", `127.0.0.1:${port}`);
    const before = two.seen.length;
    const posted = await harness.send({ host, method: "POST" });
    expect(posted.status).toBe(502);
    const got = harness.get(host);
    await expect.poll(() => connections).toBeGreaterThan(1);
    dying.close();
    await harness.ingress.table.write("dying", { version: "v1", targets: [two.target] });
    expect(await got).toMatchObject({ status: 200, body: "two" });
    expect(two.seen.length).toBe(before + 1);
  });

  it("leaves only the newest entry of the App in the route table", async () => {
    const host = await addApp("tidy", one.target);
    for (let round = 1; round <= 5; round += 1)
      await harness.ingress.table.write("tidy", { version: `v${round}`, targets: [two.target] });
    const entries = () =>
      readdirSync(`${harness.dataDir}/ingress/table/apps/tidy`).filter((name) => name !== "_");
    expect(entries().length).toBeGreaterThan(1);
    await expect.poll(() => entries().length).toBe(1);
    expect((await harness.get(host)).body).toBe("two");
  });
});

describe("other apps", () => {
  it("keep their WebSockets while an App is created, switched, stopped and deleted", async () => {
    const host = await addApp("chat", two.target);
    const socket = await openWebSocket(harness.httpPort, host);
    await socket.echo("before");
    for (let round = 0; round < 20; round += 1) {
      const name = `passing-${round}`;
      const passing = await addApp(name, one.target);
      expect((await harness.get(passing)).body).toBe("one");
      await harness.ingress.table.write(name, { version: "v1", targets: [two.target] });
      expect((await harness.get(passing)).body).toBe("two");
      await harness.ingress.table.write(name, { version: "v1", targets: [] });
      expect((await harness.get(passing)).status).toBe(503);
      await harness.ingress.table.remove(name);
      harness.delete(name);
      await socket.echo(`round ${round}`);
    }
    await harness.waitUntil(
      async () => (await harness.get("passing-19.localhost")).status === 404,
      () => "the host of a deleted app is known still",
    );
    await socket.echo("after");
    socket.close();
  });
});

describe("several targets of an App", () => {
  it("all get requests, and an unreachable one loses none", async () => {
    const [gone = 0] = await freePorts(1);
    const host = await addApp("many", one.target, two.target, `127.0.0.1:${gone}`);
    const bodies = await Promise.all(Array.from({ length: 60 }, () => harness.get(host)));
    expect(new Set(bodies.map(({ body }) => body))).toEqual(new Set(["one", "two"]));
    expect(new Set(bodies.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("may be more than twelve", async () => {
    const backends = await Promise.all(
      Array.from({ length: 15 }, (_, index) => startBackend(`r${index}`)),
    );
    const host = await addApp("wide", ...backends.map(({ target }) => target));
    const seen = new Set<string>();
    for (let round = 0; round < 400 && seen.size < 15; round += 1)
      seen.add((await harness.get(host)).body);
    expect(seen.size).toBe(15);
    await harness.ingress.table.write("wide", { version: "v1", targets: [one.target] });
    for (let round = 0; round < 20; round += 1) expect((await harness.get(host)).body).toBe("one");
    for (const backend of backends) await backend[Symbol.asyncDispose]();
  });

  it("cause a response with 502 and a page if none is reachable", async () => {
    const [gone = 0] = await freePorts(1);
    const host = await addApp("dark", `127.0.0.1:${gone}`);
    const answer = await harness.get(host);
    expect(answer.status).toBe(502);
    expect(answer.body).toContain("could not be reached");
  });
});
