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

test("revisions.applied names no revision before it has served", async () => {
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

describe("a rollback without a revision", () => {
  test("goes back to the version that serves while a newer one never becomes ready", async () => {
    await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
    await deploy(harness, "web:1");
    await deploy(harness, "web:2");
    harness.apply("web", app("hangs:1"));
    await harness.clock.advance(10_000);
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
    expect(rollbackTarget(harness)).toBe(2);
  });

  test("may choose a version that has served for a moment only", async () => {
    await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
    await deploy(harness, "web:1", 1_000);
    await deploy(harness, "web:2", 1_000);
    expect(harness.store.revisions.list("web").map(({ state }) => state)).toEqual([
      "attempted",
      "attempted",
    ]);
    expect(rollbackTarget(harness)).toBe(1);
  });

  test("goes to the version before the one that serves, and back again", async () => {
    await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
    await deploy(harness, "web:1");
    await deploy(harness, "web:2");
    expect(rollbackTarget(harness)).toBe(1);
    await deploy(harness, "web:1");
    expect(rollbackTarget(harness)).toBe(2);
  });
});
