import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openConnection } from "../../src/dbus/connect-session-bus.ts";
import { messageTypes } from "../../src/dbus/outgoing-message.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

/**
 * Blocks the event loop of this process until the process `pid`, the bus, has exited. So this process cannot notice in
 * the meantime that its connection to the bus is closed.
 */
function blockUntilExit(pid: number): void {
  const isRunning = () => {
    try {
      return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
    } catch {
      return false;
    }
  };
  while (isRunning());
}

test.for([true, false])(
  "the connection ends without an error if the bus exits before a message is sent (passing of descriptors: %s)",
  async (negotiateFds) => {
    await using bus = await TestSessionBus.start();
    const connection = await openConnection({
      address: bus.address,
      negotiateFds,
      receiver: { onCall: () => {}, onSignal: () => {} },
      bodyBytesMax: 1024,
      valuesMax: 16,
    });
    process.kill(bus.pid, "SIGKILL");
    blockUntilExit(bus.pid);
    connection.send({
      type: messageTypes.signal,
      path: "/x",
      interface: "x.y",
      member: "Sent",
      signature: "",
      args: [],
    });
    await connection.closed;
    expect(connection.lossError).toBeUndefined();
  },
);

test("a call that fails because the bus exits during it is not logged as a failure, because its caller is gone too", async () => {
  await using harness = await BusHarness.start();
  const { bus, daemon, logged } = harness;
  let failure: unknown;
  await harness.serveContext({
    Search: async () => {
      process.kill(bus.pid, "SIGKILL");
      blockUntilExit(bus.pid);
      try {
        return [JSON.stringify(await daemon.identifyConnection(":1.99"))];
      } catch (error) {
        failure = error;
        throw error;
      }
    },
  });
  await using raw = await RawBusClient.connect(bus);
  raw.send({
    destination: CONTEXT,
    path: CONTEXT_PATH,
    interface: CONTEXT,
    member: "Search",
    signature: "sa{sv}",
    body: ["boiler", {}],
  });
  await daemon.closed;
  await daemon[Symbol.asyncDispose]();
  expect(failure).toMatchObject({ busName: "org.freedesktop.DBus.Error.Disconnected" });
  expect(logged.filter(({ level }) => level === "error")).toEqual([]);
});
