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

/** 10,000 of each were counted when this was written; fewer show a leak just as well. */
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

async function worldWithSessions(open: () => number): Promise<BusHarness> {
  const world = await BusHarness.start({ limits: unlimited });
  world.daemon.serve(inference.path, {
    name: inference.interface,
    methods: {
      Ping: () => ["berth test"],
      OpenSession: () => ["/dev/assistant/Inference1/session/1", open()],
    },
    properties: { Version: () => 1 },
  });
  await world.daemon.requestName(inference.destination);
  return world;
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

test("descriptors that are returned are closed here when they have been sent", async () => {
  await using world = await worldWithSessions(newDescriptor);
  await using client = await connectSessionBus({ address: world.bus.address, negotiateFds: true });
  const start = openDescriptors();
  const once = async () => {
    const [, fd] = await openSession(client);
    if (typeof fd !== "number") throw new Error("no descriptor came");
    closeSync(fd);
  };
  await inBatches(once);
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), WAIT_OPTIONS);
}, 120_000);

test("each of many answers that come together has its own descriptor", async () => {
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-fds-"));
  let count = 0;
  await using world = await worldWithSessions(() => {
    count += 1;
    const file = path.join(dir, String(count));
    writeFileSync(file, String(count));
    return openSync(file, "r");
  });
  await using client = await connectSessionBus({ address: world.bus.address, negotiateFds: true });
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

test("nobody reads the answers, or takes them: they are closed all the same", async () => {
  const opened: number[] = [];
  await using world = await worldWithSessions(() => {
    const fd = newDescriptor();
    opened.push(fd);
    return fd;
  });
  const start = openDescriptors();
  const raw = await RawBusClient.connect(world.bus); // takes no descriptors
  const call = { ...inference, member: "OpenSession", signature: "a{sv}", body: [{}] };
  for (let sent = 0; sent < 100; sent++) raw.send({ ...call, isReplyUnwanted: sent % 2 === 0 });
  await vi.waitFor(() => expect(opened.length).toBe(100), WAIT_OPTIONS);
  raw.disconnect();
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), WAIT_OPTIONS);
});

test("descriptors that are sent here are closed, wherever they are in the arguments", async () => {
  await using world = await BusHarness.start({ limits: unlimited });
  await world.serveContext({});
  await using client = await connectSessionBus({ address: world.bus.address, negotiateFds: true });
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
    // The connection closes what it has sent.
    const error = await client.call(variant(newDescriptor()), options).catch((why: unknown) => why);
    names.add(error instanceof BusCallError ? error.busName.replace(/.*\./, "") : String(error));
  });
  expect([...names].toSorted()).toEqual(["InvalidArgs", "UnknownMethod", "UnknownObject"]);
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), WAIT_OPTIONS);
}, 120_000);

test("an index of a descriptor that did not come is an error, and no end of the daemon", async () => {
  await using world = await BusHarness.start();
  await world.serveContext({});
  await using raw = await RawBusClient.connect(world.bus);
  // A connection that passes none: dbus-next writes the index and drops the descriptor.
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  const call = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT };
  const body = ["q", { fd: new Variant("h", 0) }];
  raw.send({ ...call, member: "Search", signature: "sa{sv}", body });
  warn.mockRestore();
  // The bus may cut off who announces what it does not send; the daemon serves the next one.
  await using other = await RawBusClient.connect(world.bus);
  expect(await other.call({ ...call, member: "Ping" })).toEqual(["berth test"]);
});
