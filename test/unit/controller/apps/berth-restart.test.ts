import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web = { image: "web:1", port: 80 };

test("a healthy version whose progress deadline passes while Berth does not run is probed before it can fail", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  // The version was healthy for too short a time to count as good, so its deadline still applies.
  await harness.clock.advance(3_000);
  expect(harness.app("web")?.status?.revisions.stable).toBeNull();
  const [before] = harness.listContainers("web");
  await harness.kill();
  await harness.clock.advance(10 * 60_000);
  harness.boot();
  await harness.clock.advance(60_000);
  expect(harness.isReady("web")).toBe(true);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
  expect(harness.listContainers("web").map(({ id }) => id)).toEqual([before?.id]);
  expect(harness.app("web")?.status?.revisions.stable).toBe(1);
});

test("a version that was never healthy still fails at its deadline after a restart of Berth", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY } },
  });
  harness.boot();
  harness.apply("web", { ...web, image: "sick:1" });
  await harness.clock.advance(5_000);
  await harness.kill();
  await harness.clock.advance(10 * 60_000);
  harness.boot();
  await harness.waitForPhase("web", "failed");
  expect(harness.condition("web", "Stalled")?.reason).toBe("ProgressDeadlineExceeded");
});

test("an image that was pulled for an app is recorded, and removed together with the app", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "pulled:1": { held: false, pullMs: 3_000 } },
  });
  harness.boot();
  harness.apply("web", { ...web, image: "pulled:1" });
  await harness.waitUntilReady("web");
  const events = harness.store.events.list({ kind: "App", name: "web", limit: 100 });
  expect(events.filter(({ reason }) => reason === "ImagePulled")).toHaveLength(1);
  expect(harness.engine.localImages.has("pulled:1")).toBe(true);
  harness.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await harness.clock.until(() => !harness.app("web"), 60_000, "the app is gone");
  expect(harness.engine.localImages.has("pulled:1")).toBe(false);
});
