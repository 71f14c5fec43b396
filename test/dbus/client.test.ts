import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const error = (name: string) => ({ busName: `org.freedesktop.DBus.Error.${name}` });
const forever = new AbortController().signal;
const target = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT };

let dir: string;
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), "berth-client-"));
  process.on("unhandledRejection", onUnhandled);
});
afterEach(async () => {
  await rm(dir, { recursive: true });
  process.off("unhandledRejection", onUnhandled);
  if (unhandled.length > 0)
    throw new Error("a rejection that nobody handled", { cause: unhandled });
});

test.each([false, true])(
  "connecting fails if no process listens at the address, or if the address is invalid (passing of descriptors: %s)",
  async (negotiateFds) => {
    const address = `unix:path=${dir}/nothing`;
    await expect(connectSessionBus({ address, negotiateFds })).rejects.toMatchObject(
      error("NoServer"),
    );
    const wrong = connectSessionBus({ address: "tcp:host=x", negotiateFds });
    await expect(wrong).rejects.toMatchObject(error("BadAddress"));
  },
);

test.each([
  ["rejects every user", "REJECTED EXTERNAL\r\n", "AuthFailed"],
  ["is not a bus", `HTTP/1.1 400 Bad Request\r\n`, "AuthFailed"],
  ["never ends its line", "x".repeat(20_000), "AuthFailed"],
  ["hangs up", undefined, "Disconnected"],
  [
    "sends invalid data after the handshake",
    "OK 1234\r\nAGREE_UNIX_FD\r\nthis is no message at all, is it?",
    "Disconnected",
  ],
  ["hangs up after the handshake", "OK 1234\r\nAGREE_UNIX_FD\r\n", "Disconnected"],
])("connecting to the bus fails if the process at its address %s", async (_, text, name) => {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => {
      if (text === undefined) socket.destroy();
      else socket.write(text);
      if (text?.startsWith("OK")) setImmediate(() => socket.end());
    });
  });
  await new Promise<void>((resolve) => server.listen(path.join(dir, "bus"), resolve));
  for (const negotiateFds of [true, false]) {
    const given = connectSessionBus({ address: `unix:path=${dir}/bus`, negotiateFds });
    await expect(given).rejects.toMatchObject(error(name));
  }
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

test("connecting fails if the bus has no space for another connection", async () => {
  await using bus = await TestSessionBus.start({ limits: { max_completed_connections: 1 } });
  await using first = await connectSessionBus({ address: bus.address, negotiateFds: true });
  expect(first.uniqueName).toMatch(/^:/);
  for (const negotiateFds of [true, false]) {
    const second = connectSessionBus({ address: bus.address, negotiateFds });
    await expect(second).rejects.toMatchObject({ name: "BusCallError" });
  }
});

test.each([false, true])(
  "calls reject at their deadline and on abort (passing of descriptors: %s)",
  async (negotiateFds) => {
    await using harness = await BusHarness.start();
    let answer: (() => void) | undefined;
    await harness.serveContext({
      MemoryList: async () => {
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
        return ["late"];
      },
    });
    await using client = await connectSessionBus({ address: harness.bus.address, negotiateFds });
    const list = { ...target, member: "MemoryList", signature: "s", args: ["app"] };
    await expect(client.call(list, { signal: forever, timeoutMs: 50 })).rejects.toMatchObject(
      error("NoReply"),
    );
    answer?.();
    const abort = new AbortController();
    const aborted = client.call(list, { signal: abort.signal, timeoutMs: 60_000 });
    const reason = new Error("enough");
    abort.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    await expect(client.call(list, { signal: abort.signal, timeoutMs: 1 })).rejects.toBe(reason);
    // The client ignores answers that arrive after an abort, and the connection stays usable.
    const ping = { ...target, member: "Ping", signature: "", args: [] };
    expect(await client.call(ping, { signal: forever, timeoutMs: 5_000 })).toEqual(["berth test"]);
    const wrong = client.call(
      { ...ping, signature: "u", args: ["x"] },
      { signal: forever, timeoutMs: 5_000 },
    );
    await expect(wrong).rejects.toThrow("does not fit u");
    expect(await client.call(ping, { signal: forever, timeoutMs: 5_000 })).toEqual(["berth test"]);
  },
);
