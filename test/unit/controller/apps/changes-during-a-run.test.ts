import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const actor = { name: "test" };

test("apps that take minutes to stop do not delay other apps", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": {}, "slow:1": { ignoresTerm: true } },
  }).boot();
  const names = Array.from({ length: 10 }, (_, index) => `slow-${index}`);
  for (const name of names) harness.apply(name, { image: "slow:1", stopGracePeriod: "10m" });
  for (const name of names) await harness.waitUntilReady(name);
  await harness.clock.advance(15_000);
  for (const name of names)
    harness.apply(name, { image: "slow:1", stopGracePeriod: "10m", running: false });
  await harness.clock.advance(100);
  harness.apply("web", web);
  await harness.waitUntilReady("web", 5_000);
  expect(harness.listContainers("slow-9")[0]?.state).toBe("running");
  for (const name of names) await harness.waitForPhase(name, "stopped", 11 * 60_000);
});

test("a run of the reconciler stops executing its plan when a newer generation exists", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "slow:1": { ignoresTerm: true } },
  }).boot();
  const slow: AppSpec = { image: "slow:1", replicas: 10, stopGracePeriod: "20s" };
  harness.apply("web", slow);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { ...slow, replicas: 1 });
  await harness.clock.advance(1_000);
  harness.apply("web", slow);
  await harness.clock.advance(25_000);
  const running = harness.listContainers("web").filter(({ state }) => state === "running");
  expect(running).toHaveLength(10);
});

test("the failure of a pull that was started for a deleted or changed app is not returned to a later request", async () => {
  await using harness = new ControlPlaneHarness({
    images: {
      "web:1": {},
      "late:1": { held: false, pullMs: 10_000, auth: { username: "a", password: "b" } },
    },
  }).boot();
  harness.engine.registry.delete("late:1");
  const slow = {
    beforeCall: (call: { name: string }) =>
      call.name === "pullImage"
        ? new Promise<void>((resolve) => harness.clock.setTimer(5_000, resolve))
        : undefined,
  };
  harness.runtime.faults = slow;
  harness.apply("web", { image: "late:1", port: 80 });
  await harness.clock.advance(1_000);
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(10 * 60_000);
  harness.runtime.faults = {};
  harness.engine.setImage("late:1", { held: false, pullMs: 1_000 });
  harness.apply("web", { image: "late:1", port: 80 });
  await harness.waitUntilReady("web", 30_000);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("a failing pull that several apps need runs once", async () => {
  await using harness = new ControlPlaneHarness().boot();
  for (const name of ["a", "b", "c", "d"]) harness.apply(name, { image: "nowhere:1", port: 80 });
  for (const name of ["a", "b", "c", "d"]) await harness.waitForPhase(name, "failed");
  expect(harness.runtime.calls.byName.get("pullImage")).toBe(1);
});

test("the network is removed when the last two apps are deleted concurrently", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("a", web);
  harness.apply("b", web);
  await harness.waitUntilReady("a");
  await harness.waitUntilReady("b");
  harness.store.delete("App", "a", { actor, manager: "api" });
  harness.store.delete("App", "b", { actor, manager: "api" });
  await harness.clock.until(() => !harness.app("a") && !harness.app("b"), 60_000, "both are gone");
  expect([...harness.engine.networks.keys()]).toEqual([]);
});

test("a suspended app is not touched, even if the reconciler cannot use its spec", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  harness.runtime.resetCalls();
  harness.apply("web", { ...web, suspend: true, running: false, pullSecret: "gone" });
  await harness.clock.advance(10_000);
  expect(harness.runtime.calls.writes).toBe(0);
  expect(harness.listContainers("web")[0]?.state).toBe("running");
});

test("a clock that was set back delays no restart", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const day = 24 * 3_600_000;
  const app = harness.app("web");
  if (!app?.status) throw new Error("it has no status");
  const { memory } = app.status;
  const of = `${memory.stable?.hash}/0`;
  await harness.kill();
  harness.boot();
  // The recorded times are from before the clock was set back by a day.
  const restarts = [{ of, at: harness.clock.now() + day }];
  const status = { ...app.status, memory: { ...memory, restarts } };
  harness.store.setStatus("App", "web", app.metadata.uid, status);
  harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 1);
  await harness.clock.advance(10_000);
  expect(harness.isReady("web")).toBe(true);
});

test("the deadline of a new version is suspended while the engine is unreachable", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(3_000);
  harness.engine.setReachable(false);
  for (const container of harness.listContainers("web")) harness.engine.kill(container.id, 255);
  await harness.clock.advance(5 * 60_000);
  harness.engine.setReachable(true);
  await harness.waitUntilReady("web", 30_000);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("a dry run reserves no port for an app that does not exist", async () => {
  await using harness = new ControlPlaneHarness().boot();
  const signal = new AbortController().signal;
  const { operations } = await harness.controlPlane.planApp("ghost", web, signal);
  expect(operations.map(({ operation }) => operation)).toContain("createContainer");
  expect(harness.store.ports.get("ghost", 0, 80)).toBeUndefined();
});

test("a dry run of a new spec for a stalled app does not report the stall", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": {}, "bad:1": { startError: "no" } },
  }).boot();
  harness.apply("web", { ...web, image: "bad:1" });
  await harness.waitForPhase("web", "failed");
  const signal = new AbortController().signal;
  const report = await harness.controlPlane.planApp("web", web, signal);
  expect(report.blockedBy).toBeNull();
  expect((await harness.controlPlane.planApp("web", undefined, signal)).blockedBy).toContain("no");
});

test("a container that exits while Berth lists the containers is stopped only once", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "slow:1": { ignoresTerm: true }, "web:1": {} },
    ingress: "fake",
  }).boot();
  const slow = { ...web, stopGracePeriod: "1m", rollout: { drain: "0s", observe: "0s" } } as const;
  harness.apply("web", { ...slow, image: "slow:1" });
  await harness.waitUntilReady("web");
  harness.apply("web", slow);
  await harness.waitUntilReady("web");
  expect(harness.listContainers("web")).toHaveLength(2);
  let isDelayed = false;
  harness.runtime.faults = {
    afterCall: (call) => {
      if (call.name !== "listContainers" || isDelayed) return undefined;
      isDelayed = true;
      return new Promise<void>((resolve) => harness.clock.setTimer(90_000, resolve));
    },
  };
  harness.apply("web", { ...slow, rollout: { ...slow.rollout, drain: "1s" } });
  await harness.clock.advance(180_000);
  expect(isDelayed).toBe(true);
  expect(harness.listContainers("web")).toHaveLength(1);
  expect(harness.runtime.calls.byName.get("stopContainer")).toBe(1);
});
