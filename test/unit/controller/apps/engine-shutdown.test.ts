import { describe, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };

const started = (harness: ControlPlaneHarness) =>
  harness.runtime.calls.byName.get("startContainer") ?? 0;

test("while an engine shuts down, nothing is started, and the ends of containers do not use the restart budget", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("usual", web);
  harness.apply("never-again", { ...web, restart: { attempts: 0 } });
  await harness.waitUntilReady("usual");
  await harness.waitUntilReady("never-again");
  const before = harness.engine.containers().map(({ id }) => id);
  harness.runtime.resetCalls();

  harness.engine.shutDown();
  // In a minute, Berth would use up the restart budget if the containers that the shutdown ends counted as crashed.
  await harness.clock.advance(60_000);
  expect(started(harness)).toBe(0);
  for (const name of ["usual", "never-again"]) {
    expect(harness.condition(name, "Ready")).toMatchObject({ status: "Unknown" });
    expect(harness.condition(name, "Stalled")).toBeUndefined();
  }

  harness.engine.setReachable(false);
  await harness.clock.advance(5_000);
  harness.engine.setReachable(true);
  await harness.waitUntilReady("usual");
  await harness.waitUntilReady("never-again");
  expect(harness.app("usual")?.status?.restarts).toBe(0);
  expect(harness.engine.containers().map(({ id }) => id)).toEqual(before);
});

test("restarts of the engine never use up the restart budget", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  for (let round = 0; round < 12; round += 1) {
    harness.engine.restart();
    await harness.clock.until(
      () => harness.listContainers("web").some(({ state }) => state === "running"),
      20_000,
      `it runs again, ${round}`,
    );
    await harness.clock.advance(3_000);
  }
  expect(harness.isReady("web")).toBe(true);
  expect(harness.app("web")?.status?.restarts).toBe(0);
});

test("after a restart of the engine, an app that keeps crashing gets one more start and no new budget", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "crash:1": { exits: { afterMs: 500, code: 1 } } },
  });
  harness.boot();
  harness.apply("web", { image: "crash:1", restart: { attempts: 2 } });
  await harness.clock.until(
    () => harness.app("web")?.status?.restarts === 1,
    20_000,
    "it was restarted once",
  );
  harness.runtime.resetCalls();
  harness.engine.restart();
  await harness.waitForPhase("web", "failed");
  expect(harness.condition("web", "Stalled")?.reason).toBe("CrashLoop");
  // The first start replaces the container run that the engine's restart ended, and does not use the restart budget.
  // The second start uses up the last restart of the budget.
  expect(started(harness)).toBe(2);
});

/** Waits until the container runs again, and returns the number of counted restarts. */
async function restartsWhenBack(harness: ControlPlaneHarness): Promise<number | undefined> {
  const isRunning = () => harness.listContainers("web").every(({ state }) => state === "running");
  const isUp = () => harness.isReady("web") && isRunning();
  await harness.clock.until(isUp, 120_000, "it runs again");
  return harness.app("web")?.status?.restarts;
}

describe("an app without a restart budget", () => {
  const once: AppSpec = { ...web, restart: { attempts: 0 } };
  const begin = async (harness: ControlPlaneHarness) => {
    harness.boot();
    harness.apply("web", once);
    await harness.waitUntilReady("web");
  };

  test("runs again after a restart of the machine, but is not restarted if it then ends by itself", async () => {
    await using harness = new ControlPlaneHarness();
    await begin(harness);
    await harness.restartMachine();
    harness.boot();
    expect(await restartsWhenBack(harness)).toBe(0);
    // The container ends by itself, after the machine has restarted.
    harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 1);
    await harness.waitForPhase("web", "failed");
  });

  test("is not started if it ended by itself while Berth did not run", async () => {
    await using harness = new ControlPlaneHarness();
    harness.bootedAtMs = harness.clock.now() - 1_000;
    await begin(harness);
    await harness.kill();
    harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 1);
    harness.boot();
    await harness.waitForPhase("web", "failed");
    expect(harness.condition("web", "Stalled")?.reason).toBe("CrashLoop");
  });

  test("runs again even if the restarted engine answers a call that was sent before the restart", async () => {
    await using harness = new ControlPlaneHarness();
    await begin(harness);
    // systemd holds the engine's socket open, so the restarted engine answers calls that were sent before its restart.
    harness.runtime.faults.beforeCall = async ({ name }) => {
      if (name === "ping")
        await new Promise<void>((resolve) => harness.clock.setTimer(4_000, resolve));
    };
    harness.engine.shutDown();
    await harness.clock.settle();
    harness.engine.setReachable(false);
    await harness.clock.advance(1_000);
    harness.engine.setReachable(true);
    await harness.clock.advance(1_000);
    expect(await restartsWhenBack(harness)).toBe(0);
  });

  test("runs again after a restart of the engine, even if the first attempt to start it fails", async () => {
    await using harness = new ControlPlaneHarness();
    await begin(harness);
    let failures = 0;
    harness.runtime.faults.beforeCall = ({ name }) => {
      if (name !== "ensureNetwork" || failures > 0) return;
      failures += 1;
      throw new BerthError("engine_error", "not yet");
    };
    harness.engine.restart();
    expect(await restartsWhenBack(harness)).toBe(0);
    expect(failures).toBe(1);
  });

  test("runs again when the user resumes it, if it was suspended while the engine restarted", async () => {
    await using harness = new ControlPlaneHarness();
    await begin(harness);
    harness.apply("web", { ...once, suspend: true });
    await harness.clock.advance(1_000);
    harness.engine.restart();
    await harness.clock.advance(5_000);
    expect(harness.listContainers("web").map(({ state }) => state)).toEqual(["exited"]);
    harness.apply("web", once);
    expect(await restartsWhenBack(harness)).toBe(0);
  });

  test("runs again if Berth noticed the engine's absence only through a failed ping", async () => {
    await using harness = new ControlPlaneHarness();
    await begin(harness);
    // The event stream stays open, as if the other end had disappeared silently.
    let isAway = true;
    harness.runtime.faults.beforeCall = ({ name }) => {
      if (name === "ping" && isAway) throw new BerthError("engine_unreachable", "no answer");
    };
    harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 143);
    await harness.clock.advance(5_000);
    expect(harness.condition("web", "Ready")).toMatchObject({ status: "Unknown" });
    isAway = false;
    expect(await restartsWhenBack(harness)).toBe(0);
  });
});

test("no version fails because of an outage of the engine that only failed pings have revealed", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("web", { ...web, rollout: { progressDeadline: "10s" } });
  await harness.waitUntilReady("web");
  // The version was healthy for too short a time to count as good, so its deadline still applies.
  await harness.clock.advance(3_000);
  let isAway = true;
  harness.runtime.faults.beforeCall = ({ name }) => {
    if (name === "ping" && isAway) throw new BerthError("engine_unreachable", "no answer");
  };
  harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 143);
  await harness.clock.advance(60_000);
  isAway = false;
  expect(await restartsWhenBack(harness)).toBe(0);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("no version fails because of the time during which the engine shuts down", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "crash:1": { exits: { afterMs: 500, code: 1 } } },
  });
  harness.boot();
  harness.apply("web", {
    image: "crash:1",
    restart: { attempts: 3, backoff: "60s" },
    rollout: { progressDeadline: "10s" },
  });
  await harness.clock.until(() => harness.app("web")?.status?.restarts === 1, 9_000, "one restart");
  await harness.clock.advance(1_000);
  harness.engine.shutDown();
  await harness.clock.advance(30_000);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
  expect(harness.condition("web", "Ready")).toMatchObject({ status: "Unknown" });
});

test("nothing is started on an engine that shuts down, even if its event stream connects once more", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  harness.runtime.resetCalls();
  harness.engine.deliverEvents = false;
  harness.engine.shutDown();
  harness.engine.deliverEvents = true;
  harness.engine.cutEvents();
  await harness.clock.advance(30_000);
  expect(started(harness)).toBe(0);
});

test("if a failed version runs next to a version that serves requests, the serving one runs again after each restart of the engine", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": {}, "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY } },
    ingress: "fake",
  });
  harness.boot();
  const rollout = { autoRevert: false, progressDeadline: "10s" };
  const spec: AppSpec = { ...web, restart: { attempts: 1 }, rollout };
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  harness.apply("web", { ...spec, image: "sick:1" });
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    120_000,
    "the new version is given up",
  );
  const old = () => harness.listContainers("web").find(({ spec: { image } }) => image === "web:1");
  for (let round = 0; round < 4; round += 1) {
    harness.engine.shutDown();
    await harness.clock.advance(3_000);
    expect(old()?.state).toBe("exited");
    harness.engine.setReachable(false);
    harness.engine.setReachable(true);
    await harness.clock.until(() => old()?.state === "running", 60_000, `it runs again, ${round}`);
  }
});

test("the engine is not pinged if no container has ended", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(120_000);
  expect(harness.runtime.calls.byName.get("ping")).toBeUndefined();
});

test("the first connection to the engine is not treated as a recovery: a container that ended by itself counts as a restart", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.kill();
  harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 1);
  harness.boot();
  await harness.waitUntilReady("web");
  expect(harness.app("web")?.status?.restarts).toBe(1);
});
