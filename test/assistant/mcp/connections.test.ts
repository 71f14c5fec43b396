import { chmod, mkdir, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, expect, it } from "vitest";
import type { McpLimits } from "../../../src/assistant/agent/mcp/mcp-limits.ts";
import { getToolAppError, McpHarness } from "../../support/mcp-harness.ts";
import { RawApp, type RawScript } from "../../support/raw-app.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const APP = "org.example.Plain";
const MIB = 1024 * 1024;
/** 1,000 take two seconds, and nine on a busy machine. */
const ROUNDS = Number(process.env["BERTH_MCP_ROUNDS"] ?? 300);

let world: McpHarness;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

async function open(limits: Partial<McpLimits> = {}, clock?: VirtualClock): Promise<McpHarness> {
  world = await McpHarness.open({
    limits: { callTimeoutMs: 2_000, ...limits },
    ...(clock && { clock }),
  });
  return world;
}

/** Closes at each call. */
const dying: RawScript = (message, peer) => {
  if (message.method !== "tools/call") return undefined;
  peer.socket.destroy();
  return "handled";
};

it("leaves an app alone that fails again and again, for longer each time", async () => {
  const clock = new VirtualClock();
  await open({ failuresBeforeBackoff: 3, backoffMs: 1_000, backoffMsMax: 3_000 }, clock);
  const app = await world.startRawApp(APP, dying);
  const fail = async () => (await getToolAppError(world.call(APP, "echo"))).code;
  for (let round = 0; round < 3; round += 1) expect(await fail()).toBe("transport_closed");
  const left = await getToolAppError(world.call(APP, "echo"));
  expect(left.code).toBe("app_unavailable");
  expect(left.message).toMatch(/failed 3 times in a row and is not called for 1 s; last: .+/);
  expect(app.connections).toBe(3);
  for (const restMs of [1_000, 2_000, 3_000, 3_000]) {
    await clock.advance(restMs - 1);
    expect(await fail()).toBe("app_unavailable");
    await clock.advance(1);
    expect(await fail()).toBe("transport_closed");
  }
  expect(app.connections).toBe(7);
  await clock.advance(3_000);
  app.script = () => undefined;
  expect((await world.call(APP, "echo")).isError).toBe(false);
  app.script = dying;
  for (let round = 0; round < 3; round += 1) expect(await fail()).toBe("transport_closed");
});

it("counts a connection that is lost once, however many calls were on it", async () => {
  await open({ failuresBeforeBackoff: 2 });
  const app = await world.startRawApp(APP, (message) =>
    message.method === "tools/call" ? "handled" : undefined,
  );
  const calls = Array.from({ length: 20 }, () => getToolAppError(world.call(APP, "echo")));
  await expect.poll(() => app.methods.filter((name) => name === "tools/call").length).toBe(20);
  app.disconnect();
  for (const call of calls) expect((await call).code).toBe("transport_closed");
  app.script = () => undefined;
  expect((await world.call(APP, "echo")).isError).toBe(false);
});

it("refuses calls above what one app may have under way", async () => {
  await open({ callsMax: 4 });
  const app = await world.startRawApp(APP, (message) =>
    message.method === "tools/call" ? "handled" : undefined,
  );
  const held = Array.from({ length: 4 }, () => getToolAppError(world.call(APP, "echo")));
  await expect.poll(() => app.methods.filter((name) => name === "tools/call").length).toBe(4);
  const fifth = await getToolAppError(world.call(APP, "echo"));
  expect(fifth.code).toBe("app_unavailable");
  expect(fifth.message).toContain("4 calls");
  app.disconnect();
  await Promise.all(held);
});

it("cuts an app off that does not read", async () => {
  await open({ outgoingBytesMax: MIB });
  await world.startRawApp(APP, (message, peer) => {
    if (message.method === "tools/list") peer.socket.pause();
    return undefined;
  });
  const app = { appId: APP, isActivatable: false };
  const { signal } = new AbortController();
  await world.apps.getDefinition(app, "echo", signal);
  const args = { text: "x".repeat(MIB) };
  const calls = [1, 2, 3].map(() => getToolAppError(world.apps.call(app, "echo", args, signal)));
  const codes = (await Promise.all(calls)).map(({ code }) => code);
  expect(codes).toEqual(["transport_closed", "transport_closed", "transport_closed"]);
});

it("closes a connection that nobody has used for a while, and opens it on demand", async () => {
  const clock = new VirtualClock();
  await open({ idleTimeoutMs: 60_000 }, clock);
  const app = await world.startRawApp(APP);
  await world.call(APP, "echo");
  await clock.advance(59_999);
  expect(world.apps.isConnected(APP)).toBe(true);
  await world.call(APP, "echo");
  await clock.advance(59_999);
  expect(world.apps.isConnected(APP)).toBe(true);
  await clock.advance(1);
  expect(world.apps.isConnected(APP)).toBe(false);
  await world.call(APP, "echo");
  expect(app.connections).toBe(2);
});

it("asks for the list once, by whomever it is wanted", async () => {
  await open();
  const app = await world.startRawApp(APP);
  await Promise.all(Array.from({ length: 20 }, () => world.call(APP, "echo")));
  expect(app.connections).toBe(1);
  expect(app.methods.filter((name) => name === "tools/list")).toHaveLength(1);
});

it("one caller that gives up takes nothing from another", async () => {
  await open();
  await world.startRawApp(APP);
  const address = { appId: APP, isActivatable: false };
  const giving = new AbortController();
  const first = world.apps.getDefinition(address, "echo", giving.signal);
  const second = world.apps.getDefinition(address, "echo", new AbortController().signal);
  giving.abort(new Error("enough"));
  await expect(first).rejects.toThrow("enough");
  expect(await second).toBeDefined();
});

it("takes only a folder and a socket that are this user's alone", async () => {
  await open();
  const reason = async () => {
    const failure = await getToolAppError(world.call(APP, "echo"));
    expect(failure.code).toBe("app_unavailable");
    expect(failure.message).not.toContain(world.dir);
    return failure.message;
  };
  expect(await reason()).toContain("is not running");
  expect(await readdir(join(world.dir, "assistant"))).toEqual(["apps"]);
  const socket = join(world.socketsDir, `${APP}.sock`);
  await writeFile(socket, "");
  expect(await reason()).toContain("is not a socket");
  await rm(socket);
  const app = await RawApp.start(world.socketsDir, "org.example.Other");
  await symlink(join(world.socketsDir, "org.example.Other.sock"), socket);
  expect(await reason()).toContain("is not a socket");
  await chmod(world.socketsDir, 0o750);
  expect(await reason()).toContain("accessible to other users");
  await app[Symbol.asyncDispose]();
  await rm(world.socketsDir, { recursive: true });
  await symlink(world.dir, world.socketsDir);
  expect(await reason()).toContain("not a folder of this user");
});

it("a name that leads elsewhere, or is too long for a socket, is refused", async () => {
  await open();
  await mkdir(world.socketsDir, { recursive: true, mode: 0o700 });
  for (const appId of ["../evil", "a/b", "", ".", "a..b", "a\0b", `org.${"x".repeat(200)}`]) {
    expect((await getToolAppError(world.call(appId, "echo"))).message).toContain(
      "cannot be a socket name",
    );
  }
});

it("a socket that a crash left behind is app_unavailable", async () => {
  await open();
  const app = await RawApp.start(world.socketsDir, APP);
  const path = join(world.socketsDir, `${APP}.sock`);
  // What a listener that is closed takes away, one that was killed does not.
  const kept = `${path}.kept`;
  await rename(path, kept);
  await app[Symbol.asyncDispose]();
  await rename(kept, path);
  expect((await getToolAppError(world.call(APP, "echo"))).message).toContain("is not running");
});

it("ends what is under way when it is disposed, and begins nothing after", async () => {
  await open();
  const app = await world.startRawApp(APP, (message) =>
    message.method === "tools/call" ? "handled" : undefined,
  );
  const call = getToolAppError(world.call(APP, "echo"));
  await expect.poll(() => app.methods.at(-1)).toBe("tools/call");
  await world.apps[Symbol.asyncDispose]();
  expect((await call).code).toBe("transport_closed");
  const after = await getToolAppError(world.call(APP, "echo"));
  expect(after.code).toBe("transport_closed");
  expect(after.message).toContain("shutting down");
});

it("keeps nothing of connections that are over", async () => {
  await open({ failuresBeforeBackoff: Number.POSITIVE_INFINITY });
  const app = await world.startRawApp(APP);
  const round = async () => {
    await world.call(APP, "echo");
    app.disconnect();
    // Not expect.poll, which keeps something of each of its calls itself.
    while (world.apps.isConnected(APP)) await nextTurn();
    app.received.length = 0;
  };
  for (let warm = 0; warm < 50; warm += 1) await round();
  const before = { fds: await descriptors(), heap: heapUsed() };
  for (let done = 0; done < ROUNDS; done += 1) await round();
  expect(app.connections).toBe(ROUNDS + 50);
  expect(await descriptors()).toBeLessThanOrEqual(before.fds + 2);
  // A connection with its client weighs about 40 KiB: one kept in five would show.
  expect(heapUsed() - before.heap).toBeLessThan(2 * MIB);
});

it("keeps nothing of lines that were too long", async () => {
  await open({ failuresBeforeBackoff: Number.POSITIVE_INFINITY });
  const line = Buffer.alloc(6 * MIB, "x");
  await world.startRawApp(APP, (message, peer) => {
    if (message.method !== "tools/call") return undefined;
    peer.socket.write(line);
    return "handled";
  });
  const fail = async () => (await getToolAppError(world.call(APP, "echo"))).code;
  for (let warm = 0; warm < 3; warm += 1) expect(await fail()).toBe("result_too_large");
  heapUsed();
  const before = process.memoryUsage().arrayBuffers;
  for (let done = 0; done < 20; done += 1) expect(await fail()).toBe("result_too_large");
  // The memory of buffers that are garbage is given back some time after.
  const kept = () => {
    heapUsed();
    return process.memoryUsage().arrayBuffers - before;
  };
  await expect.poll(kept).toBeLessThan(8 * MIB);
});

async function descriptors(): Promise<number> {
  return (await readdir("/proc/self/fd")).length;
}

/** After all that is garbage has gone. */
function heapUsed(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("garbage cannot be collected on demand");
  collect();
  return process.memoryUsage().heapUsed;
}
