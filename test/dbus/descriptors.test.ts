import { closeSync, openSync, readSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { Variant } from "dbus-next";
import { expect, test, vi } from "vitest";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import {
  BusCallError,
  type BusMethodCall,
  type BusVariant,
  type SessionBus,
} from "../../src/dbus/port.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { newDescriptor, openDescriptors } from "../support/open-descriptors.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

/** The number of calls of each kind. The test was written with 10,000, but fewer calls detect a leak as well. */
const CALLS = Number(process.env["BERTH_BUS_CALLS"] ?? 500);
const BATCH = 50;

const unlimited = {
  calls: { burst: 1e9, perSecond: 1e9 },
  runningMax: 1_000,
  heldBytesMax: 2 ** 30,
};
const inference = {
  destination: "dev.assistant.Inference1",
  path: "/dev/assistant/Inference1",
  interface: "dev.assistant.Inference1",
};

async function startBusWithSessions(open: () => number): Promise<BusHarness> {
  const harness = await BusHarness.start({ limits: unlimited });
  harness.daemon.serve(inference.path, {
    name: inference.interface,
    methods: {
      Ping: () => ["berth test"],
      OpenSession: () => ["/dev/assistant/Inference1/session/1", open()],
    },
    properties: { Version: () => 1 },
  });
  await harness.daemon.requestName(inference.destination);
  return harness;
}

function openSession(client: SessionBus) {
  const method = { ...inference, member: "OpenSession", signature: "a{sv}", args: [new Map()] };
  return client.call(method, { signal: new AbortController().signal, timeoutMs: 10_000 });
}

async function inBatches(work: () => Promise<unknown>): Promise<void> {
  for (let done = 0; done < CALLS; done += BATCH) {
    await Promise.all(Array.from({ length: BATCH }, work));
  }
}

test("once the daemon has sent the descriptors in an answer, it closes its own copies", async () => {
  await using harness = await startBusWithSessions(newDescriptor);
  await using client = await connectSessionBus({
    address: harness.bus.address,
    negotiateFds: true,
  });
  const start = openDescriptors();
  const once = async () => {
    const [, fd] = await openSession(client);
    if (typeof fd !== "number") throw new Error("no descriptor came");
    closeSync(fd);
  };
  await inBatches(once);
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), WAIT_OPTIONS);
}, 120_000);

test("each of many concurrent D-Bus answers has its own descriptor", async () => {
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-fds-"));
  let count = 0;
  await using harness = await startBusWithSessions(() => {
    count += 1;
    const file = path.join(dir, String(count));
    writeFileSync(file, String(count));
    return openSync(file, "r");
  });
  await using client = await connectSessionBus({
    address: harness.bus.address,
    negotiateFds: true,
  });
  const answers = await Promise.all(Array.from({ length: 100 }, () => openSession(client)));
  const texts = answers.map(([, fd]) => {
    if (typeof fd !== "number") throw new Error("no descriptor came");
    const buffer = Buffer.alloc(8);
    const length = readSync(fd, buffer);
    closeSync(fd);
    return buffer.toString("utf8", 0, length);
  });
  expect(texts).toEqual(Array.from({ length: 100 }, (_, index) => String(index + 1)));
  await rm(dir, { recursive: true });
});

test("descriptors are closed even if the client does not read the answers", async () => {
  const opened: number[] = [];
  await using harness = await startBusWithSessions(() => {
    const fd = newDescriptor();
    opened.push(fd);
    return fd;
  });
  const start = openDescriptors();
  const raw = await RawBusClient.connect(harness.bus); // This client does not accept descriptors.
  const call = { ...inference, member: "OpenSession", signature: "a{sv}", body: [{}] };
  for (let sent = 0; sent < 100; sent++) raw.send({ ...call, isReplyUnwanted: sent % 2 === 0 });
  await vi.waitFor(() => expect(opened.length).toBe(100), WAIT_OPTIONS);
  raw.disconnect();
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), WAIT_OPTIONS);
});

test("the daemon closes the descriptors in the arguments of a call, at any depth", async () => {
  await using harness = await BusHarness.start({ limits: unlimited });
  await harness.serveContext({});
  await using client = await connectSessionBus({
    address: harness.bus.address,
    negotiateFds: true,
  });
  const start = openDescriptors();
  const call = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT };
  const search = (variant: BusVariant) => ({
    ...call,
    member: "Search",
    signature: "sa{sv}",
    args: ["q", new Map([["key", variant]])],
  });
  const one = (fd: number) => ({ ...call, signature: "h", args: [fd] });
  const variants: ((fd: number) => BusMethodCall)[] = [
    (fd) => search({ signature: "h", value: fd }),
    (fd) => search({ signature: "ah", value: [fd, fd, fd] }),
    (fd) => search({ signature: "v", value: { signature: "(sh)", value: ["x", fd] } }),
    (fd) => ({ ...one(fd), member: "MemoryGet" }),
    (fd) => ({ ...one(fd), member: "Nope" }),
    (fd) => ({ ...one(fd), path: "/nowhere", member: "Nope" }),
  ];
  const names = new Set<string>();
  let turn = 0;
  await inBatches(async () => {
    const variant = variants[turn++ % variants.length];
    if (!variant) return;
    const options = { signal: new AbortController().signal, timeoutMs: 10_000 };
    // The client's connection closes the descriptors after it has sent them.
    const error = await client.call(variant(newDescriptor()), options).catch((why: unknown) => why);
    names.add(error instanceof BusCallError ? error.busName.replace(/.*\./, "") : String(error));
  });
  expect([...names].toSorted()).toEqual(["InvalidArgs", "UnknownMethod", "UnknownObject"]);
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), WAIT_OPTIONS);
}, 120_000);

test("an index of a descriptor that was not sent is an error, and the daemon continues", async () => {
  await using harness = await BusHarness.start();
  await harness.serveContext({});
  await using raw = await RawBusClient.connect(harness.bus);
  // dbus-next drops the descriptor and writes its index, because it cannot pass descriptors over this connection.
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  const call = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT };
  const body = ["q", { fd: new Variant("h", 0) }];
  raw.send({ ...call, member: "Search", signature: "sa{sv}", body });
  warn.mockRestore();
  // The bus may disconnect a client that announces descriptors without sending them; the daemon serves the next
  // client.
  await using other = await RawBusClient.connect(harness.bus);
  expect(await other.call({ ...call, member: "Ping" })).toEqual(["berth test"]);
});
