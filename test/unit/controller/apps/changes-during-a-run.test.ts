import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const actor = { name: "test" };

test("apps that take minutes to stop do not delay other apps", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": {}, "slow:1": { ignoresTerm: true } },
  }).boot();
  const names = Array.from({ length: 10 }, (_, index) => `slow-${index}`);
  for (const name of names) world.apply(name, { image: "slow:1", stopGracePeriod: "10m" });
  for (const name of names) await world.waitUntilReady(name);
  await world.clock.advance(15_000);
  for (const name of names)
    world.apply(name, { image: "slow:1", stopGracePeriod: "10m", running: false });
  await world.clock.advance(100);
  world.apply("web", web);
  await world.waitUntilReady("web", 5_000);
  expect(world.listContainers("slow-9")[0]?.state).toBe("running");
  for (const name of names) await world.waitForPhase(name, "stopped", 11 * 60_000);
});

test("a run stops executing its plan when a newer generation exists", async () => {
  await using world = new ControlPlaneHarness({
    images: { "slow:1": { ignoresTerm: true } },
  }).boot();
  const slow: AppSpec = { image: "slow:1", replicas: 10, stopGracePeriod: "20s" };
  world.apply("web", slow);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", { ...slow, replicas: 1 });
  await world.clock.advance(1_000);
  world.apply("web", slow);
  await world.clock.advance(25_000);
  const running = world.listContainers("web").filter(({ state }) => state === "running");
  expect(running).toHaveLength(10);
});

test("a failed pull that no app wants any more is not the result of a later request", async () => {
  await using world = new ControlPlaneHarness({
    images: {
      "web:1": {},
      "late:1": { held: false, pullMs: 10_000, auth: { username: "a", password: "b" } },
    },
  }).boot();
  world.engine.registry.delete("late:1");
  const slow = {
    beforeCall: (call: { name: string }) =>
      call.name === "pullImage"
        ? new Promise<void>((resolve) => world.clock.setTimer(5_000, resolve))
        : undefined,
  };
  world.runtime.faults = slow;
  world.apply("web", { image: "late:1", port: 80 });
  await world.clock.advance(1_000);
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(10 * 60_000);
  world.runtime.faults = {};
  world.engine.setImage("late:1", { held: false, pullMs: 1_000 });
  world.apply("web", { image: "late:1", port: 80 });
  await world.waitUntilReady("web", 30_000);
  expect(world.condition("web", "Stalled")).toBeUndefined();
});

test("a failing pull that several apps want runs once", async () => {
  await using world = new ControlPlaneHarness().boot();
  for (const name of ["a", "b", "c", "d"]) world.apply(name, { image: "nowhere:1", port: 80 });
  for (const name of ["a", "b", "c", "d"]) await world.waitForPhase(name, "failed");
  expect(world.runtime.calls.byName.get("pullImage")).toBe(1);
});

test("the last two apps, deleted at once, remove the network", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("a", web);
  world.apply("b", web);
  await world.waitUntilReady("a");
  await world.waitUntilReady("b");
  world.store.delete("App", "a", { actor, manager: "api" });
  world.store.delete("App", "b", { actor, manager: "api" });
  await world.clock.until(() => !world.app("a") && !world.app("b"), 60_000, "both are gone");
  expect([...world.engine.networks.keys()]).toEqual([]);
});

test("a suspended app is not touched even if its spec is refused", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  world.runtime.resetCalls();
  world.apply("web", { ...web, suspend: true, running: false, pullSecret: "gone" });
  await world.clock.advance(10_000);
  expect(world.runtime.calls.writes).toBe(0);
  expect(world.listContainers("web")[0]?.state).toBe("running");
});

test("a clock that was set back delays no restart", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  const day = 24 * 3_600_000;
  const app = world.app("web");
  if (!app?.status) throw new Error("it has no status");
  const { memory } = app.status;
  const of = `${memory.stable?.hash}/0`;
  await world.kill();
  world.boot();
  // The times that were written before the clock was set back by a day.
  const restarts = [{ of, at: world.clock.now() + day }];
  const status = { ...app.status, memory: { ...memory, restarts } };
  world.store.setStatus("App", "web", app.metadata.uid, status);
  world.engine.kill(world.listContainers("web")[0]?.id ?? "", 1);
  await world.clock.advance(10_000);
  expect(world.isReady("web")).toBe(true);
});

test("the deadline of a new version does not run while the engine is away", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(3_000);
  world.engine.setReachable(false);
  for (const container of world.listContainers("web")) world.engine.kill(container.id, 255);
  await world.clock.advance(5 * 60_000);
  world.engine.setReachable(true);
  await world.waitUntilReady("web", 30_000);
  expect(world.condition("web", "Stalled")).toBeUndefined();
});

test("a dry run leases no port for an app that does not exist", async () => {
  await using world = new ControlPlaneHarness().boot();
  const signal = new AbortController().signal;
  const { operations } = await world.controlPlane.planApp("ghost", web, signal);
  expect(operations.map(({ operation }) => operation)).toContain("createContainer");
  expect(world.store.ports.get("ghost", 0, 80)).toBeUndefined();
});

test("a dry run of a new spec for a stalled app does not report the stall", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": {}, "bad:1": { startError: "no" } },
  }).boot();
  world.apply("web", { ...web, image: "bad:1" });
  await world.waitForPhase("web", "failed");
  const signal = new AbortController().signal;
  const report = await world.controlPlane.planApp("web", web, signal);
  expect(report.blockedBy).toBeNull();
  expect((await world.controlPlane.planApp("web", undefined, signal)).blockedBy).toContain("no");
});
