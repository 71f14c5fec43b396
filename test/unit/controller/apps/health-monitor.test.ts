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

test.each([310, 1_700, 4_260])(
  "a port that opens %i ms after the start of its container is noticed by a probe within 60 ms",
  async (readyAfterMs) => {
    await using harness = new ControlPlaneHarness({
      images: { "web:1": { readyAfterMs } },
      ingress: "fake",
    }).boot();
    harness.apply("web", web);
    const serves = () => (harness.routes?.routes.get("web")?.targets.length ?? 0) > 0;
    await harness.clock.until(serves, 30_000, "it serves");
    const startedMs = harness.listContainers("web")[0]?.startedMs ?? 0;
    expect(harness.clock.now() - startedMs - readyAfterMs).toBeLessThanOrEqual(60);
  },
);

test("a container that does not start is probed less and less often", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": { readyAfterMs: Number.POSITIVE_INFINITY } },
  }).boot();
  harness.apply("web", web);
  const countProbes = async (ms: number) => {
    const before = harness.runtime.calls.byName.get("probe") ?? 0;
    await harness.clock.advance(ms);
    return (harness.runtime.calls.byName.get("probe") ?? 0) - before;
  };
  await harness.clock.until(
    () => harness.listContainers("web")[0]?.state === "running",
    10_000,
    "it runs",
  );
  expect(await countProbes(4_000)).toBeGreaterThan(100);
  await harness.clock.advance(20_000);
  expect(await countProbes(4_000)).toBeLessThanOrEqual(16);
});
