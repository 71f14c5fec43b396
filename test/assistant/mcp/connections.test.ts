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
/**
 * The number of connections that the memory test opens and closes. 1,000 connections take two seconds, or nine on a
 * busy machine.
 */
const ROUNDS = Number(process.env["BERTH_MCP_ROUNDS"] ?? 300);

let harness: McpHarness;

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

async function open(limits: Partial<McpLimits> = {}, clock?: VirtualClock): Promise<McpHarness> {
  harness = await McpHarness.open({
    limits: { callTimeoutMs: 2_000, ...limits },
    ...(clock && { clock }),
  });
  return harness;
}

/** An app that closes the connection at each call. */
const dying: RawScript = (message, peer) => {
  if (message.method !== "tools/call") return undefined;
  peer.socket.destroy();
  return "handled";
};

it("the MCP adapter waits longer after each failure of an app before it tries again", async () => {
  const clock = new VirtualClock();
  await open({ failuresBeforeBackoff: 3, backoffMs: 1_000, backoffMsMax: 3_000 }, clock);
  const app = await harness.startRawApp(APP, dying);
  const fail = async () => (await getToolAppError(harness.call(APP, "echo"))).code;
  for (let round = 0; round < 3; round += 1) expect(await fail()).toBe("transport_closed");
  const left = await getToolAppError(harness.call(APP, "echo"));
  expect(left.code).toBe("app_unavailable");
  expect(left.message).toMatch(
    /failed 3 times in a row and is not called for 1 s; the last failure was: .+/,
  );
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
  expect((await harness.call(APP, "echo")).isError).toBe(false);
  app.script = dying;
  for (let round = 0; round < 3; round += 1) expect(await fail()).toBe("transport_closed");
});

it("a lost connection counts as one failure, however many calls used it", async () => {
  await open({ failuresBeforeBackoff: 2 });
  const app = await harness.startRawApp(APP, (message) =>
    message.method === "tools/call" ? "handled" : undefined,
  );
  const calls = Array.from({ length: 20 }, () => getToolAppError(harness.call(APP, "echo")));
  await expect.poll(() => app.methods.filter((name) => name === "tools/call").length).toBe(20);
  app.disconnect();
  for (const call of calls) expect((await call).code).toBe("transport_closed");
  app.script = () => undefined;
  expect((await harness.call(APP, "echo")).isError).toBe(false);
});

it("calls above an app's limit of concurrent calls are refused", async () => {
  await open({ callsMax: 4 });
  const app = await harness.startRawApp(APP, (message) =>
    message.method === "tools/call" ? "handled" : undefined,
  );
  const held = Array.from({ length: 4 }, () => getToolAppError(harness.call(APP, "echo")));
  await expect.poll(() => app.methods.filter((name) => name === "tools/call").length).toBe(4);
  const fifth = await getToolAppError(harness.call(APP, "echo"));
  expect(fifth.code).toBe("app_unavailable");
  expect(fifth.message).toContain("4 calls");
  app.disconnect();
  await Promise.all(held);
});

it("an app that stops reading its socket is disconnected", async () => {
  await open({ outgoingBytesMax: MIB });
  await harness.startRawApp(APP, (message, peer) => {
    if (message.method === "tools/list") peer.socket.pause();
    return undefined;
  });
  const app = { appId: APP, isActivatable: false };
  const { signal } = new AbortController();
  await harness.apps.getDefinition(app, "echo", signal);
  const args = { text: "x".repeat(MIB) };
  const calls = [1, 2, 3].map(() => getToolAppError(harness.apps.call(app, "echo", args, signal)));
  const codes = (await Promise.all(calls)).map(({ code }) => code);
  expect(codes).toEqual(["transport_closed", "transport_closed", "transport_closed"]);
});

it("an idle connection is closed after a while, and opened again on demand", async () => {
  const clock = new VirtualClock();
  await open({ idleTimeoutMs: 60_000 }, clock);
  const app = await harness.startRawApp(APP);
  await harness.call(APP, "echo");
  await clock.advance(59_999);
  expect(harness.apps.isConnected(APP)).toBe(true);
  await harness.call(APP, "echo");
  await clock.advance(59_999);
  expect(harness.apps.isConnected(APP)).toBe(true);
  await clock.advance(1);
  expect(harness.apps.isConnected(APP)).toBe(false);
  await harness.call(APP, "echo");
  expect(app.connections).toBe(2);
});

it("the list of tools is requested once for all concurrent callers", async () => {
  await open();
  const app = await harness.startRawApp(APP);
  await Promise.all(Array.from({ length: 20 }, () => harness.call(APP, "echo")));
  expect(app.connections).toBe(1);
  expect(app.methods.filter((name) => name === "tools/list")).toHaveLength(1);
});

it("the abort of one caller does not affect another caller of the same app", async () => {
  await open();
  await harness.startRawApp(APP);
  const address = { appId: APP, isActivatable: false };
  const giving = new AbortController();
  const first = harness.apps.getDefinition(address, "echo", giving.signal);
  const second = harness.apps.getDefinition(address, "echo", new AbortController().signal);
  giving.abort(new Error("enough"));
  await expect(first).rejects.toThrow("enough");
  expect(await second).toBeDefined();
});

it("the MCP adapter accepts only a directory and a socket that belong to the user alone", async () => {
  await open();
  const reason = async () => {
    const failure = await getToolAppError(harness.call(APP, "echo"));
    expect(failure.code).toBe("app_unavailable");
    expect(failure.message).not.toContain(harness.dir);
    return failure.message;
  };
  expect(await reason()).toContain("is not running");
  expect(await readdir(join(harness.dir, "assistant"))).toEqual(["apps"]);
  const socket = join(harness.socketsDir, `${APP}.sock`);
  await writeFile(socket, "");
  expect(await reason()).toContain("is not a socket");
  await rm(socket);
  const app = await RawApp.start(harness.socketsDir, "org.example.Other");
  await symlink(join(harness.socketsDir, "org.example.Other.sock"), socket);
  expect(await reason()).toContain("is not a socket");
  await chmod(harness.socketsDir, 0o750);
  expect(await reason()).toContain("accessible to other users");
  await app[Symbol.asyncDispose]();
  await rm(harness.socketsDir, { recursive: true });
  await symlink(harness.dir, harness.socketsDir);
  expect(await reason()).toContain("not a folder of this user");
});

it("an app id that leads to another directory or is too long for a socket is refused", async () => {
  await open();
  await mkdir(harness.socketsDir, { recursive: true, mode: 0o700 });
  for (const appId of ["../evil", "a/b", "", ".", "a..b", "a\0b", `org.${"x".repeat(200)}`]) {
    expect((await getToolAppError(harness.call(appId, "echo"))).message).toContain(
      "cannot be a socket name",
    );
  }
});

it("an app is reported as app_unavailable if a crash left its socket file behind", async () => {
  await open();
  const app = await RawApp.start(harness.socketsDir, APP);
  const path = join(harness.socketsDir, `${APP}.sock`);
  // A listener removes its socket file when it is closed, but not when it is killed.
  const kept = `${path}.kept`;
  await rename(path, kept);
  await app[Symbol.asyncDispose]();
  await rename(kept, path);
  expect((await getToolAppError(harness.call(APP, "echo"))).message).toContain("is not running");
});

it("the MCP adapter ends running calls when it is disposed, and starts no calls afterwards", async () => {
  await open();
  const app = await harness.startRawApp(APP, (message) =>
    message.method === "tools/call" ? "handled" : undefined,
  );
  const call = getToolAppError(harness.call(APP, "echo"));
  await expect.poll(() => app.methods.at(-1)).toBe("tools/call");
  await harness.apps[Symbol.asyncDispose]();
  expect((await call).code).toBe("transport_closed");
  const after = await getToolAppError(harness.call(APP, "echo"));
  expect(after.code).toBe("transport_closed");
  expect(after.message).toContain("shutting down");
});

it("the MCP adapter releases the memory and the descriptors of closed connections", async () => {
  await open({ failuresBeforeBackoff: Number.POSITIVE_INFINITY });
  const app = await harness.startRawApp(APP);
  const round = async () => {
    await harness.call(APP, "echo");
    app.disconnect();
    // The test waits in a loop, because expect.poll would retain memory for each of its calls.
    while (harness.apps.isConnected(APP)) await nextTurn();
    app.received.length = 0;
  };
  for (let warm = 0; warm < 50; warm += 1) await round();
  const before = { fds: await descriptors(), heap: heapUsed() };
  for (let done = 0; done < ROUNDS; done += 1) await round();
  expect(app.connections).toBe(ROUNDS + 50);
  expect(await descriptors()).toBeLessThanOrEqual(before.fds + 2);
  // A connection with its client takes about 40 KiB, so a leak of one connection in five would exceed 2 MiB.
  expect(heapUsed() - before.heap).toBeLessThan(2 * MIB);
});

it("the MCP adapter releases the memory of lines that exceed the size limit", async () => {
  await open({ failuresBeforeBackoff: Number.POSITIVE_INFINITY });
  const line = Buffer.alloc(6 * MIB, "x");
  await harness.startRawApp(APP, (message, peer) => {
    if (message.method !== "tools/call") return undefined;
    peer.socket.write(line);
    return "handled";
  });
  const fail = async () => (await getToolAppError(harness.call(APP, "echo"))).code;
  for (let warm = 0; warm < 3; warm += 1) expect(await fail()).toBe("result_too_large");
  heapUsed();
  const before = process.memoryUsage().arrayBuffers;
  for (let done = 0; done < 20; done += 1) expect(await fail()).toBe("result_too_large");
  // Node.js releases the memory of unreachable buffers with a delay, so the test polls.
  const kept = () => {
    heapUsed();
    return process.memoryUsage().arrayBuffers - before;
  };
  await expect.poll(kept).toBeLessThan(8 * MIB);
});

async function descriptors(): Promise<number> {
  return (await readdir("/proc/self/fd")).length;
}

/** Returns the used heap after a garbage collection. */
function heapUsed(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("garbage cannot be collected on demand");
  collect();
  return process.memoryUsage().heapUsed;
}
