import { describe, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };

const started = (world: ControlPlaneHarness) =>
  world.runtime.calls.byName.get("startContainer") ?? 0;

test("while an engine shuts down nothing is started, and ended containers count as no restarts", async () => {
  await using world = new ControlPlaneHarness();
  world.boot();
  world.apply("usual", web);
  world.apply("never-again", { ...web, restart: { attempts: 0 } });
  await world.waitUntilReady("usual");
  await world.waitUntilReady("never-again");
  const before = world.engine.containers().map(({ id }) => id);
  world.runtime.resetCalls();

  world.engine.shutDown();
  // Longer than all restarts of a budget need.
  await world.clock.advance(60_000);
  expect(started(world)).toBe(0);
  for (const name of ["usual", "never-again"]) {
    expect(world.condition(name, "Ready")).toMatchObject({ status: "Unknown" });
    expect(world.condition(name, "Stalled")).toBeUndefined();
  }

  world.engine.setReachable(false);
  await world.clock.advance(5_000);
  world.engine.setReachable(true);
  await world.waitUntilReady("usual");
  await world.waitUntilReady("never-again");
  expect(world.app("usual")?.status?.restarts).toBe(0);
  expect(world.engine.containers().map(({ id }) => id)).toEqual(before);
});

test("any number of restarts of the engine uses no restart budget", async () => {
  await using world = new ControlPlaneHarness();
  world.boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  for (let round = 0; round < 12; round += 1) {
    world.engine.restart();
    await world.clock.until(
      () => world.listContainers("web").some(({ state }) => state === "running"),
      20_000,
      `it runs again, ${round}`,
    );
    await world.clock.advance(3_000);
  }
  expect(world.isReady("web")).toBe(true);
  expect(world.app("web")?.status?.restarts).toBe(0);
});

test("after a restart of the engine, an app that ends by itself gets one more start and no new budget", async () => {
  await using world = new ControlPlaneHarness({
    images: { "crash:1": { exits: { afterMs: 500, code: 1 } } },
  });
  world.boot();
  world.apply("web", { image: "crash:1", restart: { attempts: 2 } });
  await world.clock.until(
    () => world.app("web")?.status?.restarts === 1,
    20_000,
    "it was restarted once",
  );
  world.runtime.resetCalls();
  world.engine.restart();
  await world.waitForPhase("web", "failed");
  expect(world.condition("web", "Stalled")?.reason).toBe("CrashLoop");
  // One that counts as no restart, and the one that was left of the budget.
  expect(started(world)).toBe(2);
});

/** Waits until the container runs again, and returns the number of counted restarts. */
async function restartsWhenBack(world: ControlPlaneHarness): Promise<number | undefined> {
  const isRunning = () => world.listContainers("web").every(({ state }) => state === "running");
  const isUp = () => world.isReady("web") && isRunning();
  await world.clock.until(isUp, 120_000, "it runs again");
  return world.app("web")?.status?.restarts;
}

describe("an app without a restart budget", () => {
  const once: AppSpec = { ...web, restart: { attempts: 0 } };
  const begin = async (world: ControlPlaneHarness) => {
    world.boot();
    world.apply("web", once);
    await world.waitUntilReady("web");
  };

  test("runs again after a restart of the machine, and only once", async () => {
    await using world = new ControlPlaneHarness();
    await begin(world);
    await world.restartMachine();
    world.boot();
    expect(await restartsWhenBack(world)).toBe(0);
    // Now it ends by itself, after the machine was started.
    world.engine.kill(world.listContainers("web")[0]?.id ?? "", 1);
    await world.waitForPhase("web", "failed");
  });

  test("is not started if it ended by itself while Berth did not run", async () => {
    await using world = new ControlPlaneHarness();
    world.bootedAtMs = world.clock.now() - 1_000;
    await begin(world);
    await world.kill();
    world.engine.kill(world.listContainers("web")[0]?.id ?? "", 1);
    world.boot();
    await world.waitForPhase("web", "failed");
    expect(world.condition("web", "Stalled")?.reason).toBe("CrashLoop");
  });

  test("runs again if the next engine answers a call that was meant for the previous one", async () => {
    await using world = new ControlPlaneHarness();
    await begin(world);
    // systemd's socket queues calls while the engine restarts.
    world.runtime.faults.beforeCall = async ({ name }) => {
      if (name === "ping")
        await new Promise<void>((resolve) => world.clock.setTimer(4_000, resolve));
    };
    world.engine.shutDown();
    await world.clock.settle();
    world.engine.setReachable(false);
    await world.clock.advance(1_000);
    world.engine.setReachable(true);
    await world.clock.advance(1_000);
    expect(await restartsWhenBack(world)).toBe(0);
  });

  test("runs again after a call that failed when the engine was just back", async () => {
    await using world = new ControlPlaneHarness();
    await begin(world);
    let failures = 0;
    world.runtime.faults.beforeCall = ({ name }) => {
      if (name !== "ensureNetwork" || failures > 0) return;
      failures += 1;
      throw new BerthError("engine_error", "not yet");
    };
    world.engine.restart();
    expect(await restartsWhenBack(world)).toBe(0);
    expect(failures).toBe(1);
  });

  test("runs again when an app that was suspended meanwhile is resumed", async () => {
    await using world = new ControlPlaneHarness();
    await begin(world);
    world.apply("web", { ...once, suspend: true });
    await world.clock.advance(1_000);
    world.engine.restart();
    await world.clock.advance(5_000);
    expect(world.listContainers("web").map(({ state }) => state)).toEqual(["exited"]);
    world.apply("web", once);
    expect(await restartsWhenBack(world)).toBe(0);
  });

  test("runs again if only an observation has found the engine away", async () => {
    await using world = new ControlPlaneHarness();
    await begin(world);
    // The stream of events stays open, as if the other end disappeared silently.
    let isAway = true;
    world.runtime.faults.beforeCall = ({ name }) => {
      if (name === "ping" && isAway) throw new BerthError("engine_unreachable", "no answer");
    };
    world.engine.kill(world.listContainers("web")[0]?.id ?? "", 143);
    await world.clock.advance(5_000);
    expect(world.condition("web", "Ready")).toMatchObject({ status: "Unknown" });
    isAway = false;
    expect(await restartsWhenBack(world)).toBe(0);
  });
});

test("no version fails because of the time in which only observations found the engine away", async () => {
  await using world = new ControlPlaneHarness();
  world.boot();
  world.apply("web", { ...web, rollout: { progressDeadline: "10s" } });
  await world.waitUntilReady("web");
  // Too short to count as good: the deadline still applies to it.
  await world.clock.advance(3_000);
  let isAway = true;
  world.runtime.faults.beforeCall = ({ name }) => {
    if (name === "ping" && isAway) throw new BerthError("engine_unreachable", "no answer");
  };
  world.engine.kill(world.listContainers("web")[0]?.id ?? "", 143);
  await world.clock.advance(60_000);
  isAway = false;
  expect(await restartsWhenBack(world)).toBe(0);
  expect(world.condition("web", "Stalled")).toBeUndefined();
});

test("no version fails because of the time in which the engine shuts down", async () => {
  await using world = new ControlPlaneHarness({
    images: { "crash:1": { exits: { afterMs: 500, code: 1 } } },
  });
  world.boot();
  world.apply("web", {
    image: "crash:1",
    restart: { attempts: 3, backoff: "60s" },
    rollout: { progressDeadline: "10s" },
  });
  await world.clock.until(() => world.app("web")?.status?.restarts === 1, 9_000, "one restart");
  await world.clock.advance(1_000);
  world.engine.shutDown();
  await world.clock.advance(30_000);
  expect(world.condition("web", "Stalled")).toBeUndefined();
  expect(world.condition("web", "Ready")).toMatchObject({ status: "Unknown" });
});

test("an engine that shuts down starts nothing, even if its events connect once more", async () => {
  await using world = new ControlPlaneHarness();
  world.boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  world.runtime.resetCalls();
  world.engine.deliverEvents = false;
  world.engine.shutDown();
  world.engine.deliverEvents = true;
  world.engine.cutEvents();
  await world.clock.advance(30_000);
  expect(started(world)).toBe(0);
});

test("the version that serves next to a failed one runs again after each restart of the engine", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": {}, "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY } },
    ingress: "fake",
  });
  world.boot();
  const rollout = { autoRevert: false, progressDeadline: "10s" };
  const spec: AppSpec = { ...web, restart: { attempts: 1 }, rollout };
  world.apply("web", spec);
  await world.waitUntilReady("web");
  world.apply("web", { ...spec, image: "sick:1" });
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    120_000,
    "the new version is given up",
  );
  const old = () => world.listContainers("web").find(({ spec: { image } }) => image === "web:1");
  for (let round = 0; round < 4; round += 1) {
    world.engine.shutDown();
    await world.clock.advance(3_000);
    expect(old()?.state).toBe("exited");
    world.engine.setReachable(false);
    world.engine.setReachable(true);
    await world.clock.until(() => old()?.state === "running", 60_000, `it runs again, ${round}`);
  }
});

test("the engine is not pinged if no container has ended", async () => {
  await using world = new ControlPlaneHarness();
  world.boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(120_000);
  expect(world.runtime.calls.byName.get("ping")).toBeUndefined();
});

test("the first connection is no loss of the engine: a container that ended by itself counts as a restart", async () => {
  await using world = new ControlPlaneHarness();
  world.boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.kill();
  world.engine.kill(world.listContainers("web")[0]?.id ?? "", 1);
  world.boot();
  await world.waitUntilReady("web");
  expect(world.app("web")?.status?.restarts).toBe(1);
});
