import { once } from "node:events";
import { expect, test, vi } from "vitest";
import { openConnection } from "../../src/dbus/connect-session-bus.ts";
import { messageTypes, NO_REPLY_EXPECTED } from "../../src/dbus/outgoing-message.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { newDescriptor, openDescriptors } from "../support/open-descriptors.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const target = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT };

async function assertAlive(harness: BusHarness): Promise<void> {
  expect(await harness.bus.gdbusCall(CONTEXT, CONTEXT_PATH, `${CONTEXT}.Ping`)).toBe(
    "('berth test',)",
  );
}

test("a client with many concurrent calls gets all answers, and the daemon keeps running", async () => {
  await using harness = await BusHarness.start();
  const text = "x".repeat(16 << 20);
  await harness.serveContext({
    MemoryList: () => [text],
    MemoryGet: async () => [await Promise.resolve(text)],
  });
  const raw = await RawBusClient.connect(harness.bus);
  const list = { ...target, member: "MemoryList", signature: "s", body: ["a"] };
  const get = { ...target, member: "MemoryGet", signature: "ss", body: ["a", "b"] };
  // The answers have 320 MiB in total, more than the connection may hold in its write queue.
  for (let each = 0; each < 10; each++) {
    raw.send(list);
    raw.send(get);
  }
  await vi.waitFor(() => expect(raw.repliesReceived).toBe(20), 20_000);
  raw.disconnect();
  await assertAlive(harness);
}, 30_000);

test("large answers to a client that has disconnected are dropped", async () => {
  await using harness = await BusHarness.start();
  const text = "x".repeat(16 << 20);
  let running = 0;
  await harness.serveContext({
    MemoryGet: async ({ signal }) => {
      running += 1;
      await once(signal, "abort");
      return [text];
    },
  });
  const raw = await RawBusClient.connect(harness.bus);
  const get = { ...target, member: "MemoryGet", signature: "ss", body: ["a", "b"] };
  for (let each = 0; each < 30; each++) raw.send(get);
  await vi.waitFor(() => expect(running).toBe(30), WAIT_OPTIONS);
  raw.disconnect();
  await assertAlive(harness);
});

test("an answer that exceeds the size limit of D-Bus is replaced by an error, and nothing is logged", async () => {
  await using harness = await BusHarness.start();
  const text = "x".repeat(65 << 20);
  await harness.serveContext({ MemoryList: () => [text] });
  await using raw = await RawBusClient.connect(harness.bus);
  const list = { ...target, member: "MemoryList", signature: "s", body: ["a"] };
  const { name, text: why } = await raw.errorOf(list);
  expect(name).toBe("org.freedesktop.DBus.Error.LimitsExceeded");
  expect(why).toContain("64 MiB");
  expect(harness.logged).toEqual([]);
});

test("a call with a path of any length is answered, and its descriptors are closed", async () => {
  await using harness = await BusHarness.start();
  await harness.serveContext({});
  await using client = await openConnection({
    address: harness.bus.address,
    negotiateFds: true,
    receiver: { onCall: () => {}, onSignal: () => {} },
    bodyBytesMax: 1_000,
    valuesMax: 1_000,
  });
  const options = { signal: new AbortController().signal, timeoutMs: 10_000 };
  const ping = { ...target, member: "Ping", signature: "", args: [] };
  await client.call(ping, options);
  const far = { ...ping, path: `/${"a".repeat(200_000)}` };
  const start = openDescriptors();
  for (let sent = 0; sent < 5; sent++) {
    const flags = NO_REPLY_EXPECTED;
    client.send({
      ...far,
      type: messageTypes.call,
      flags,
      signature: "h",
      args: [newDescriptor()],
    });
  }
  await expect(client.call(far, options)).rejects.toMatchObject({
    busName: "org.freedesktop.DBus.Error.UnknownObject",
  });
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), WAIT_OPTIONS);
  await assertAlive(harness);
});
