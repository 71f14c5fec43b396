import { expect, test } from "vitest";
import { serveOverlay } from "../../../../src/assistant/overlay/bus.ts";
import { FakeBus } from "../../../support/fake-bus.ts";
import { defaultCaller, OverlayHarness } from "../../../support/overlay-harness.ts";
import { accepted, forever } from "../../../support/scripted-service.ts";

const PATH = "/dev/assistant/Overlay1";

async function serveTestOverlay() {
  const harness = new OverlayHarness();
  const bus = new FakeBus();
  const unserve = serveOverlay({ bus, service: harness.overlay, daemon: "berth 0.0.0-test" });
  return {
    harness,
    bus,
    unserve,
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  };
}

test("signals of a query are held back until its id was sent, and keep their order", async () => {
  await using all = await serveTestOverlay();
  const { harness, bus } = all;
  const answered: (() => void)[] = [];
  const values = await bus.served.get(PATH)?.methods["Ask"]?.({
    caller: defaultCaller,
    args: ["x", new Map()],
    signal: new AbortController().signal,
    whenAnswered: (callback) => void answered.push(callback),
  });
  expect(values).toEqual([1n]);
  await harness.settle();
  expect(harness.eventSequence(1)).toContain("completed/ok");
  expect(bus.signals).toEqual([]);
  for (const callback of answered) callback();
  expect(bus.signals.map(({ name, to }) => `${name} ${to}`)).toEqual([
    "Started :1.7",
    "Token :1.7",
    "Token :1.7",
    "Token :1.7",
    "Finished :1.7",
  ]);
  await bus.call(":1.8", PATH, "Ask", "y", new Map());
  await harness.settle();
  expect(bus.signals.at(-1)).toMatchObject({
    name: "Finished",
    to: ":1.8",
    args: [2n, "completed", expect.any(String)],
  });
});

test("the overlay watches each client once, and cancels the client's queries when the client disconnects", async () => {
  await using all = await serveTestOverlay();
  const { harness, bus } = all;
  harness.inference.script = async function* (_, signal) {
    yield accepted;
    await forever(signal);
  };
  for (let at = 0; at < 3; at += 1) await bus.call(":1.7", PATH, "Ask", "x", new Map());
  await harness.settle();
  expect(bus.countWatchers(":1.7")).toBe(1);
  bus.disconnect(":1.7");
  await harness.settle();
  expect(harness.inference.running).toBe(0);
  expect(harness.events.filter(({ kind }) => kind === "finished")).toHaveLength(3);
  await bus.call(":1.7", PATH, "Ask", "x", new Map());
  expect(bus.countWatchers(":1.7")).toBe(1);
});

test("the overlay sends no signals after it was removed from the bus", async () => {
  await using all = await serveTestOverlay();
  const { harness, bus, unserve } = all;
  unserve();
  expect(bus.served.size).toBe(0);
  await harness.ask();
  expect(bus.signals).toEqual([]);
});
