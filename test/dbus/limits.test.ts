import { once } from "node:events";
import { connect } from "node:net";
import { Variant } from "dbus-next";
import { expect, test, vi } from "vitest";
import type { BusMethod } from "../../src/assistant/bus/port.ts";
import { toText } from "../../src/dbus/bus-values.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import { parseSocketPaths } from "../../src/dbus/session-bus-address.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const LIMITS_EXCEEDED = "org.freedesktop.DBus.Error.LimitsExceeded";
const target = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT };
const ping = { ...target, member: "Ping" };
const search = { ...target, member: "Search", signature: "sa{sv}" };

async function assertAlive(harness: BusHarness): Promise<void> {
  expect(await harness.bus.gdbusCall(CONTEXT, CONTEXT_PATH, `${CONTEXT}.Ping`)).toBe(
    "('berth test',)",
  );
}

/**
 * Returns a method whose calls do not end before their callers disconnect, and the connection names of all callers and
 * of those that have disconnected.
 */
function createHangingMethod(): {
  readonly method: BusMethod;
  readonly callers: string[];
  readonly gone: string[];
} {
  const callers: string[] = [];
  const gone: string[] = [];
  const method: BusMethod = async ({ caller, signal }) => {
    callers.push(caller.connection);
    await once(signal, "abort");
    gone.push(caller.connection);
    throw signal.reason;
  };
  return { method, callers, gone };
}

test.each([
  ["a text", { ...target, member: "MemoryGet", signature: "ss", body: ["a", "x".repeat(5 << 20)] }],
  [
    "an option",
    {
      ...search,
      body: ["q", { x: new Variant("as", ["x".repeat(3 << 20), "y".repeat(3 << 20)]) }],
    },
  ],
  [
    "an array of many values",
    {
      ...search,
      body: [
        "q",
        {
          x: new Variant(
            "au",
            Array.from({ length: 200_000 }, () => 1),
          ),
        },
      ],
    },
  ],
])(
  "a call with an argument that is too large (%s) is refused, and the next call is served",
  async (_, call) => {
    await using harness = await BusHarness.start();
    await harness.serveContext({});
    await using raw = await RawBusClient.connect(harness.bus);
    expect(await raw.errorOf(call)).toMatchObject({
      name: LIMITS_EXCEEDED,
      text: expect.stringMatching(/4 MiB/),
    });
    // The next call on the same connection succeeds, so the daemon has skipped exactly the discarded message.
    expect(await raw.call(ping)).toEqual(["berth test"]);
    const large = {
      ...target,
      member: "MemoryGet",
      signature: "ss",
      body: ["a", "x".repeat(3 << 20)],
    };
    expect(await raw.call(large)).toEqual([""]);
  },
);

test("some calls of a client that floods the daemon are refused, and other clients are not affected", async () => {
  await using harness = await BusHarness.start();
  await harness.serveContext({});
  await using flood = await RawBusClient.connect(harness.bus);
  await using other = await RawBusClient.connect(harness.bus);
  const results = await Promise.allSettled(Array.from({ length: 3_000 }, () => flood.call(ping)));
  const refused = results.filter(({ status }) => status === "rejected");
  expect(refused.length).toBeGreaterThan(1_000);
  expect(results.length - refused.length).toBeGreaterThanOrEqual(400);
  expect(new Set(refused.map((result) => "reason" in result && result.reason.type))).toEqual(
    new Set([LIMITS_EXCEEDED]),
  );
  expect(await other.call(ping)).toEqual(["berth test"]);
  await vi.waitFor(
    async () => expect(await flood.call(ping)).toEqual(["berth test"]),
    WAIT_OPTIONS,
  );
});

test("1,000 concurrent calls of many clients are all answered", async () => {
  await using harness = await BusHarness.start();
  await harness.serveContext({
    MemoryGet: async ({ args: [app, key] }) => {
      await new Promise((resolve) => setImmediate(resolve));
      return [`${toText(app)}/${toText(key)}`];
    },
  });
  const clients = await Promise.all(
    Array.from({ length: 20 }, () => RawBusClient.connect(harness.bus)),
  );
  const answers = await Promise.all(
    clients.flatMap((client, app) =>
      Array.from({ length: 50 }, async (_, key) => {
        const body = [`app${app}`, `key${key}`];
        const [value] = await client.call({
          ...target,
          member: "MemoryGet",
          signature: "ss",
          body,
        });
        return value === `app${app}/key${key}`;
      }),
    ),
  );
  expect(answers.length).toBe(1_000);
  expect(answers.every(Boolean)).toBe(true);
  for (const client of clients) client.disconnect();
});

test("the number of running calls of a connection is limited", async () => {
  const hanging = createHangingMethod();
  await using harness = await BusHarness.start();
  await harness.serveContext({ MemoryList: hanging.method });
  const raw = await RawBusClient.connect(harness.bus);
  const list = { ...target, member: "MemoryList", signature: "s", body: ["app"] };
  for (let sent = 0; sent < 64; sent++) raw.send(list);
  await vi.waitFor(() => expect(hanging.callers.length).toBe(64), WAIT_OPTIONS);
  expect(await raw.errorOf(list)).toMatchObject({
    name: LIMITS_EXCEEDED,
    text: expect.stringMatching(/64 calls/),
  });
  raw.disconnect();
  await vi.waitFor(() => expect(hanging.gone.length).toBe(64), WAIT_OPTIONS);
  await assertAlive(harness);
});

test("a call is aborted when the connection of its caller closes, and not when another connection closes", async () => {
  const hanging = createHangingMethod();
  await using harness = await BusHarness.start();
  await harness.serveContext({ MemoryList: hanging.method });
  const list = { ...target, member: "MemoryList", signature: "s", body: ["app"] };
  const [leaving, staying] = [
    await RawBusClient.connect(harness.bus),
    await RawBusClient.connect(harness.bus),
  ];
  leaving.send(list);
  staying.send(list);
  await vi.waitFor(() => expect(hanging.callers.length).toBe(2), WAIT_OPTIONS);
  leaving.disconnect();
  await vi.waitFor(() => expect(hanging.gone).toEqual([leaving.name]), WAIT_OPTIONS);
  await assertAlive(harness);
  expect(hanging.gone).toEqual([leaving.name]);
  staying.disconnect();
  await vi.waitFor(() => expect(hanging.gone).toEqual([leaving.name, staying.name]), WAIT_OPTIONS);
});

test("a running call is cancelled when the daemon shuts down, and its caller is notified", async () => {
  const hanging = createHangingMethod();
  const harness = await BusHarness.start();
  await harness.serveContext({ MemoryList: hanging.method });
  await using raw = await RawBusClient.connect(harness.bus);
  const ended = raw.errorOf({ ...target, member: "MemoryList", signature: "s", body: ["app"] });
  await vi.waitFor(() => expect(hanging.callers.length).toBe(1), WAIT_OPTIONS);
  await harness.daemon[Symbol.asyncDispose]();
  expect(await ended).toEqual({
    name: "dev.assistant.Error.Cancelled",
    text: "the companion is shutting down",
  });
  await harness.daemon.closed;
  await harness.bus[Symbol.asyncDispose]();
});

test("the loss of the bus cancels running calls, and resolves the promise `closed` of the connection", async () => {
  const hanging = createHangingMethod();
  const harness = await BusHarness.start();
  await harness.serveContext({ MemoryList: hanging.method });
  const gone: string[] = [];
  await using client = await connectSessionBus({
    address: harness.bus.address,
    negotiateFds: false,
  });
  harness.daemon.onDisconnect(client.uniqueName, () => gone.push(client.uniqueName));
  const method = { ...target, member: "MemoryList", signature: "s", args: ["app"] };
  const { signal } = new AbortController();
  const lost = client.call(method, { signal, timeoutMs: 60_000 });
  const outcome = lost.catch((error: unknown) => error);
  await vi.waitFor(() => expect(hanging.callers.length).toBe(1), WAIT_OPTIONS);
  await harness.bus.kill();
  await harness.daemon.closed;
  await client.closed;
  const disconnected = { busName: "org.freedesktop.DBus.Error.Disconnected" };
  expect(await outcome).toMatchObject(disconnected);
  await vi.waitFor(() => expect(hanging.gone.length).toBe(1), WAIT_OPTIONS);
  expect(gone).toEqual([client.uniqueName]);
  const later = client.call(method, { signal, timeoutMs: 60_000 });
  await expect(later).rejects.toMatchObject(disconnected);
  harness.daemon.emit(
    { path: "/x", interface: "dev.assistant.Agent1", name: "CallResolved", args: [1n, "failed"] },
    undefined,
  );
  await harness[Symbol.asyncDispose]();
});

test("a connection that has closed or never existed counts as disconnected", async () => {
  await using harness = await BusHarness.start();
  const raw = await RawBusClient.connect(harness.bus);
  const gone: string[] = [];
  harness.daemon.onDisconnect(":1.99999", () => gone.push("never"));
  const forget = harness.daemon.onDisconnect(raw.name, () => gone.push("forgotten"));
  harness.daemon.onDisconnect(raw.name, () => gone.push("left"));
  await vi.waitFor(() => expect(gone).toEqual(["never"]), WAIT_OPTIONS);
  forget();
  raw.disconnect();
  await vi.waitFor(() => expect(gone).toEqual(["never", "left"]), WAIT_OPTIONS);
});

test("a client that reads no answers does not delay other clients", async () => {
  await using harness = await BusHarness.start({
    limits: {
      calls: { burst: 1e6, perSecond: 1e6 },
      runningMax: 64,
      heldBytesMax: 32 << 20,
    },
  });
  let answered = 0;
  await harness.serveContext({
    MemoryList: () => {
      answered += 1;
      return ["x".repeat(1 << 20)];
    },
  });
  // This client completes Hello, requests 100 MiB, and never reads again.
  const [path = ""] = parseSocketPaths(harness.bus.address);
  const socket = connect({ path });
  socket.on("error", () => {});
  const uid = Buffer.from(String(process.getuid?.())).toString("hex");
  socket.write(`\0AUTH EXTERNAL ${uid}\r\nBEGIN\r\n`);
  await once(socket, "data");
  socket.pause();
  socket.write(
    message(1, ["org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello"]),
  );
  for (let serial = 2; serial < 102; serial++) {
    socket.write(message(serial, [CONTEXT, CONTEXT_PATH, CONTEXT, "MemoryList"], "app"));
  }
  await vi.waitFor(() => expect(answered).toBe(100), WAIT_OPTIONS);
  await assertAlive(harness);
  socket.destroy();
  await assertAlive(harness);
});

/** Returns a method call in D-Bus wire format, with one text argument or none. */
function message(
  serial: number,
  to: readonly [string, string, string, string],
  text?: string,
): Buffer {
  const [destination, path, interfaceName, member] = to;
  const field = (code: number, type: string, value: string): Buffer => {
    const bytes = Buffer.from(`${value}\0`);
    const length = Buffer.alloc(type === "g" ? 1 : 4);
    if (type === "g") length.writeUInt8(value.length);
    else length.writeUInt32LE(value.length);
    return padded(Buffer.concat([Buffer.from([code, 1, type.charCodeAt(0), 0]), length, bytes]));
  };
  const fields = Buffer.concat([
    field(1, "o", path),
    field(6, "s", destination),
    field(2, "s", interfaceName),
    ...(text === undefined ? [] : [field(8, "g", "s")]),
    Buffer.concat([Buffer.from([3, 1, 115, 0]), lengthOf(member), Buffer.from(`${member}\0`)]),
  ]);
  const body =
    text === undefined
      ? Buffer.alloc(0)
      : Buffer.concat([lengthOf(text), Buffer.from(`${text}\0`)]);
  const head = Buffer.alloc(16);
  head.set([108, 1, 0, 1]);
  head.writeUInt32LE(body.length, 4);
  head.writeUInt32LE(serial, 8);
  head.writeUInt32LE(fields.length, 12);
  return Buffer.concat([head, padded(fields), body]);
}

function lengthOf(text: string): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(Buffer.byteLength(text));
  return bytes;
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((8 - (bytes.length % 8)) % 8)]);
}
