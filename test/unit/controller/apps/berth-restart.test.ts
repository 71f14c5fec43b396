import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web = { image: "web:1", port: 80 };

test("after a long stop of Berth, a Ready version is probed before its deadline counts", async () => {
  await using world = new ControlPlaneHarness();
  world.boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  // Too short to count as good: the deadline still applies to it.
  await world.clock.advance(3_000);
  expect(world.app("web")?.status?.revisions.stable).toBeNull();
  const [before] = world.listContainers("web");
  await world.kill();
  await world.clock.advance(10 * 60_000);
  world.boot();
  await world.clock.advance(60_000);
  expect(world.isReady("web")).toBe(true);
  expect(world.condition("web", "Stalled")).toBeUndefined();
  expect(world.listContainers("web").map(({ id }) => id)).toEqual([before?.id]);
  expect(world.app("web")?.status?.revisions.stable).toBe(1);
});

test("a version that was never healthy still fails after a start of Berth", async () => {
  await using world = new ControlPlaneHarness({
    images: { "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY } },
  });
  world.boot();
  world.apply("web", { ...web, image: "sick:1" });
  await world.clock.advance(5_000);
  await world.kill();
  await world.clock.advance(10 * 60_000);
  world.boot();
  await world.waitForPhase("web", "failed");
  expect(world.condition("web", "Stalled")?.reason).toBe("ProgressDeadlineExceeded");
});

test("an image that was pulled for an app is recorded, and removed with the app", async () => {
  await using world = new ControlPlaneHarness({
    images: { "pulled:1": { held: false, pullMs: 3_000 } },
  });
  world.boot();
  world.apply("web", { ...web, image: "pulled:1" });
  await world.waitUntilReady("web");
  const events = world.store.events.list({ kind: "App", name: "web", limit: 100 });
  expect(events.filter(({ reason }) => reason === "ImagePulled")).toHaveLength(1);
  expect(world.engine.localImages.has("pulled:1")).toBe(true);
  world.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await world.clock.until(() => !world.app("web"), 60_000, "the app is gone");
  expect(world.engine.localImages.has("pulled:1")).toBe(false);
});
