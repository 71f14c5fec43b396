import { expect, test } from "vitest";
import { serveOverlay } from "../../../../src/assistant/overlay/bus.ts";
import { FakeBus } from "../../../support/fake-bus.ts";
import { defaultCaller, OverlayHarness } from "../../../support/overlay-harness.ts";
import { accepted, forever } from "../../../support/scripted-service.ts";

const PATH = "/dev/assistant/Overlay1";

async function served() {
  const world = new OverlayHarness();
  const bus = new FakeBus();
  const unserve = serveOverlay({ bus, service: world.overlay, daemon: "berth 0.0.0-test" });
  return {
    world,
    bus,
    unserve,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

test("what is told of a query before its id has gone out waits for it, and keeps its order", async () => {
  await using all = await served();
  const { world, bus } = all;
  const answered: (() => void)[] = [];
  const values = await bus.served.get(PATH)?.methods["Ask"]?.({
    caller: defaultCaller,
    args: ["x", new Map()],
    signal: new AbortController().signal,
    whenAnswered: (callback) => void answered.push(callback),
  });
  expect(values).toEqual([1n]);
  await world.settle();
  expect(world.eventSequence(1)).toContain("completed/ok");
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
  await world.settle();
  expect(bus.signals.at(-1)).toMatchObject({
    name: "Finished",
    to: ":1.8",
    args: [2n, "completed", expect.any(String)],
  });
});

test("a connection is waited for once, and what it asked goes with it", async () => {
  await using all = await served();
  const { world, bus } = all;
  world.inference.script = async function* (_, signal) {
    yield accepted;
    await forever(signal);
  };
  for (let at = 0; at < 3; at += 1) await bus.call(":1.7", PATH, "Ask", "x", new Map());
  await world.settle();
  expect(bus.countWatchers(":1.7")).toBe(1);
  bus.disconnect(":1.7");
  await world.settle();
  expect(world.inference.running).toBe(0);
  expect(world.events.filter(({ kind }) => kind === "finished")).toHaveLength(3);
  await bus.call(":1.7", PATH, "Ask", "x", new Map());
  expect(bus.countWatchers(":1.7")).toBe(1);
});

test("taken off the bus, it says no more", async () => {
  await using all = await served();
  const { world, bus, unserve } = all;
  unserve();
  expect(bus.served.size).toBe(0);
  await world.ask();
  expect(bus.signals).toEqual([]);
});
