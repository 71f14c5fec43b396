import { once } from "node:events";
import { expect, test, vi } from "vitest";
import { openConnection } from "../../src/dbus/connect.ts";
import { messageTypes, NO_REPLY_EXPECTED } from "../../src/dbus/outgoing-message.ts";
import { BusWorld, CONTEXT, CONTEXT_PATH } from "../support/bus-world.ts";
import { newDescriptor, openDescriptors } from "../support/open-descriptors.ts";
import { PATIENT } from "../support/patience.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";

const target = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT };

async function lives(world: BusWorld): Promise<void> {
  expect(await world.bus.gdbusCall(CONTEXT, CONTEXT_PATH, `${CONTEXT}.Ping`)).toBe(
    "('berth test',)",
  );
}

test("a client that asks for much at once gets it, and costs the daemon nothing", async () => {
  await using world = await BusWorld.start();
  const text = "x".repeat(16 << 20);
  await world.serveContextWith({
    MemoryList: () => [text],
    MemoryGet: async () => [await Promise.resolve(text)],
  });
  const raw = await RawBusClient.connect(world.bus);
  const list = { ...target, member: "MemoryList", signature: "s", body: ["a"] };
  const get = { ...target, member: "MemoryGet", signature: "ss", body: ["a", "b"] };
  // 320 MiB, which is more than the connection bears to have waiting.
  for (let each = 0; each < 10; each++) {
    raw.send(list);
    raw.send(get);
  }
  await vi.waitFor(() => expect(raw.repliesReceived).toBe(20), 20_000);
  raw.leave();
  await lives(world);
}, 30_000);

test("large answers to a client that has left are dropped, and cost the daemon nothing", async () => {
  await using world = await BusWorld.start();
  const text = "x".repeat(16 << 20);
  let running = 0;
  await world.serveContextWith({
    MemoryGet: async ({ signal }) => {
      running += 1;
      await once(signal, "abort");
      return [text];
    },
  });
  const raw = await RawBusClient.connect(world.bus);
  const get = { ...target, member: "MemoryGet", signature: "ss", body: ["a", "b"] };
  for (let each = 0; each < 30; each++) raw.send(get);
  await vi.waitFor(() => expect(running).toBe(30), PATIENT);
  raw.leave();
  await lives(world);
});

test("an answer that no message can hold is refused in words, and nothing to worry about", async () => {
  await using world = await BusWorld.start();
  const text = "x".repeat(65 << 20);
  await world.serveContextWith({ MemoryList: () => [text] });
  await using raw = await RawBusClient.connect(world.bus);
  const list = { ...target, member: "MemoryList", signature: "s", body: ["a"] };
  const { name, text: why } = await raw.errorOf(list);
  expect(name).toBe("org.freedesktop.DBus.Error.LimitsExceeded");
  expect(why).toContain("64 MiB");
  expect(world.logged).toEqual([]);
});

test("a call with a path of any length is answered, and its descriptors are closed", async () => {
  await using world = await BusWorld.start();
  await world.serveContextWith({});
  await using client = await openConnection({
    address: world.bus.address,
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
  await vi.waitFor(() => expect(openDescriptors()).toBeLessThanOrEqual(start), PATIENT);
  await lives(world);
});
