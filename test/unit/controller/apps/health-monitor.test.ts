import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };

test("while the engine cannot be reached, no container becomes unhealthy, and none is restarted afterwards", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", { ...web, healthCheck: { command: ["true"], interval: "1s" } });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const startedMs = harness.listContainers("web")[0]?.startedMs;
  harness.engine.setReachable(false);
  await harness.clock.advance(60_000);
  harness.engine.setReachable(true);
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  expect(harness.listContainers("web")[0]?.startedMs).toBe(startedMs);
  expect(harness.app("web")?.status?.restarts).toBe(0);
});

test("after a start of Berth, a running container has its whole deadline before a failed probe restarts it", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(10 * 60_000);
  const [container] = harness.listContainers("web");
  if (!container) throw new Error("there is no container");
  await harness.kill();
  container.unhealthy = true;
  harness.boot();
  await harness.clock.advance(5_000);
  container.unhealthy = false;
  await harness.waitUntilReady("web");
  expect(harness.app("web")?.status?.restarts).toBe(0);
});

test("a stable version that hangs is restarted at its deadline each time", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const [container] = harness.listContainers("web");
  if (!container) throw new Error("there is no container");
  harness.engine.kill(container.id);
  await harness.waitUntilReady("web");
  // The container never answers again, not even after a restart.
  Object.defineProperty(container, "unhealthy", { get: () => true, set: () => {} });
  harness.engine.kill(container.id);
  await harness.waitForPhase("web", "failed", 15 * 60_000);
  expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "CrashLoop" });
  Object.defineProperty(container, "unhealthy", { value: false });
  await harness.waitUntilReady("web", 10 * 60_000);
});

test("after a revert, probes of the failed version do not restart the version that replaces it", async () => {
  await using harness = new ControlPlaneHarness({
    images: {
      "old:1": { listensOn: [80] },
      "sick:1": {
        readyAfterMs: Number.POSITIVE_INFINITY,
        healthyAfterMs: Number.POSITIVE_INFINITY,
      },
    },
    ingress: "fake",
  }).boot();
  harness.apply("web", { image: "old:1", port: 80 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const [old] = harness.listContainers("web");
  const startedMs = old?.startedMs;
  harness.apply("web", { image: "sick:1", port: 81 });
  await harness.clock.advance(5_000);
  await harness.kill();
  harness.boot();
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await harness.clock.advance(30_000);
  expect(old?.startedMs).toBe(startedMs);
});
