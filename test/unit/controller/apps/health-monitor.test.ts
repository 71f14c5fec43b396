import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };

test("an engine that cannot be reached makes no container unhealthy, and causes no restart afterwards", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", { ...web, healthCheck: { command: ["true"], interval: "1s" } });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  const startedMs = world.listContainers("web")[0]?.startedMs;
  world.engine.setReachable(false);
  await world.clock.advance(60_000);
  world.engine.setReachable(true);
  await world.waitUntilReady("web");
  await world.clock.advance(60_000);
  expect(world.listContainers("web")[0]?.startedMs).toBe(startedMs);
  expect(world.app("web")?.status?.restarts).toBe(0);
});

test("a container that runs at the start of Berth has its deadline before a failed probe restarts it", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(10 * 60_000);
  const [container] = world.listContainers("web");
  if (!container) throw new Error("there is no container");
  await world.kill();
  container.unhealthy = true;
  world.boot();
  await world.clock.advance(5_000);
  container.unhealthy = false;
  await world.waitUntilReady("web");
  expect(world.app("web")?.status?.restarts).toBe(0);
});

test("a good version that hangs after a restart is restarted at its deadline, and then Stalled", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  const [container] = world.listContainers("web");
  if (!container) throw new Error("there is no container");
  world.engine.kill(container.id);
  await world.waitUntilReady("web");
  // From now on it never answers again, also after a restart.
  Object.defineProperty(container, "unhealthy", { get: () => true, set: () => {} });
  world.engine.kill(container.id);
  await world.waitForPhase("web", "failed", 15 * 60_000);
  expect(world.condition("web", "Stalled")).toMatchObject({ reason: "Unhealthy" });
});

test("the version of a revert is not restarted because of probes of the failed version", async () => {
  await using world = new ControlPlaneHarness({
    images: {
      "old:1": { listensOn: [80] },
      "sick:1": {
        readyAfterMs: Number.POSITIVE_INFINITY,
        healthyAfterMs: Number.POSITIVE_INFINITY,
      },
    },
    ingress: "fake",
  }).boot();
  world.apply("web", { image: "old:1", port: 80 });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  const [old] = world.listContainers("web");
  const startedMs = old?.startedMs;
  world.apply("web", { image: "sick:1", port: 81 });
  await world.clock.advance(5_000);
  await world.kill();
  world.boot();
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await world.clock.advance(30_000);
  expect(old?.startedMs).toBe(startedMs);
});
