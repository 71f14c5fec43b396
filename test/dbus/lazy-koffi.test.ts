import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const isLoaded = () => readFileSync("/proc/self/maps", "utf8").includes("/koffi.node");

test("koffi is loaded for connections that pass descriptors, and for no others", async () => {
  await using bus = await TestSessionBus.start();
  await using plain = await connectSessionBus({ address: bus.address, negotiateFds: false });
  expect([plain.uniqueName, isLoaded()]).toEqual([expect.stringMatching(/^:/), false]);
  await using passing = await connectSessionBus({ address: bus.address, negotiateFds: true });
  expect([passing.uniqueName, isLoaded()]).toEqual([expect.stringMatching(/^:/), true]);
});
