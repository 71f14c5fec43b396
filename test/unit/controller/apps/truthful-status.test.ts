import { describe, expect, test } from "vitest";
import { findRollbackTarget } from "../../../../src/api/rollback.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const never = { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY };
const app = (image: string) => ({ image, port: 80, rollout: { progressDeadline: "60s" } });
const images = { "web:1": {}, "web:2": {}, "hangs:1": never, "slow:1": { readyAfterMs: 90_000 } };

async function deploy(harness: ControlPlaneHarness, image: string, forMs = 15_000): Promise<void> {
  harness.apply("web", app(image));
  await harness.waitUntilReady("web");
  await harness.clock.advance(forMs);
}

function rollbackTarget(harness: ControlPlaneHarness): number | undefined {
  const resource = harness.app("web");
  if (!resource) throw new Error("there is no app");
  const revisions = harness.store.revisions.list("web");
  return findRollbackTarget(resource, revisions, undefined, harness.store)?.number;
}

test("a first version that becomes healthy after its deadline becomes Ready", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
  harness.apply("web", app("slow:1"));
  await harness.waitForPhase("web", "failed");
  expect(harness.condition("web", "Stalled")?.reason).toBe("ProgressDeadlineExceeded");
  await harness.waitUntilReady("web");
  expect(harness.condition("web", "Stalled")).toBeUndefined();
  await harness.clock.advance(15_000);
  expect(harness.store.revisions.list("web").map(({ state }) => state)).toEqual(["stable"]);
});

test("revisions.applied names no revision that has never served requests", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
  harness.apply("web", app("hangs:1"));
  await harness.clock.advance(5_000);
  expect(harness.app("web")?.status?.revisions).toMatchObject({ attempted: 1, applied: null });
  await deploy(harness, "web:1");
  expect(harness.app("web")?.status?.revisions).toMatchObject({ attempted: 2, applied: 2 });
  harness.apply("web", app("hangs:1"));
  await harness.clock.advance(5_000);
  expect(harness.app("web")?.status?.revisions).toMatchObject({ attempted: 1, applied: 2 });
});

test("Progressing is False once the revert of a failed version is complete", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
  await deploy(harness, "web:1");
  harness.apply("web", app("hangs:1"));
  await harness.clock.advance(5_000);
  expect(harness.condition("web", "Progressing")?.status).toBe("True");
  await harness.waitForPhase("web", "degraded");
  await harness.clock.advance(30_000);
  expect(harness.condition("web", "Progressing")).toMatchObject({
    status: "False",
    reason: "Reverted",
  });
});

describe("a rollback without a given revision", () => {
  test("returns to the version that serves requests while a newer version never becomes Ready", async () => {
    await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
    await deploy(harness, "web:1");
    await deploy(harness, "web:2");
    harness.apply("web", app("hangs:1"));
    await harness.clock.advance(10_000);
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
    expect(rollbackTarget(harness)).toBe(2);
  });

  test("chooses the previous version even if it has served requests only for a moment", async () => {
    await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
    await deploy(harness, "web:1", 1_000);
    await deploy(harness, "web:2", 1_000);
    expect(harness.store.revisions.list("web").map(({ state }) => state)).toEqual([
      "attempted",
      "attempted",
    ]);
    expect(rollbackTarget(harness)).toBe(1);
  });

  test("returns to the version before the one that serves requests; a second rollback returns to the later version", async () => {
    await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
    await deploy(harness, "web:1");
    await deploy(harness, "web:2");
    expect(rollbackTarget(harness)).toBe(1);
    await deploy(harness, "web:1");
    expect(rollbackTarget(harness)).toBe(2);
  });
});

test("an app without an image is pending, and runs after its first deploy", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", { port: 80 });
  await harness.waitForPhase("web", "pending");
  expect(harness.condition("web", "Ready")).toMatchObject({ status: "False", reason: "NoImage" });
  expect(harness.condition("web", "Accepted")).toMatchObject({
    status: "False",
    reason: "NoImage",
    message: expect.stringContaining("berth deploy web --image IMAGE"),
  });
  const plan = await harness.controlPlane.planApp("web", undefined, AbortSignal.timeout(5_000));
  expect(plan).toMatchObject({ operations: [], blockedBy: expect.stringContaining("no image") });
  harness.apply("web", { port: 80, image: "web:1" });
  await harness.waitUntilReady("web");
});

test("an app with a port and `domain: none` is Ready without a route, and gets one when it has a domain", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
  harness.apply("web", { ...app("web:1"), domain: "none" });
  await harness.waitUntilReady("web");
  expect(harness.app("web")?.status?.url).toBeNull();
  expect(harness.condition("web", "Routed")).toBeUndefined();
  expect(harness.routes?.routes.get("web")?.targets ?? []).toEqual([]);
  const [container] = harness.app("web")?.status?.containers ?? [];
  harness.apply("web", app("web:1"));
  await harness.clock.advance(15_000);
  expect(harness.condition("web", "Routed")?.status).toBe("True");
  expect(harness.app("web")?.status?.url).toBe("http://web.localhost");
  expect(harness.app("web")?.status?.containers.map(({ id }) => id)).toEqual([container?.id]);
});
