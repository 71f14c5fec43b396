import { expect, test } from "vitest";
import { assessApp } from "../../../../src/api/wait-for-app.ts";
import { BerthError } from "../../../../src/base/errors.ts";
import { computeAppNotices } from "../../../../src/controller/notifications/compute-notices.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const sourceApp = { source: { git: { url: "https://git.example.org/web.git" } }, port: 80 };
const imageApp = { image: "elsewhere/web:1", port: 80 };

/** Returns how the wait for the App's current generation ends. */
function outcome(harness: ControlPlaneHarness) {
  const app = harness.app("web");
  if (!app) throw new Error("there is no app");
  const { name, uid, generation } = app.metadata;
  return assessApp(app, { name, uid, generation, until: "ready" });
}

function notices(harness: ControlPlaneHarness) {
  const app = harness.app("web");
  if (!app) throw new Error("there is no app");
  return computeAppNotices(app, undefined, harness.clock.now()).notices.flatMap(
    ({ events }) => events,
  );
}

/** Boots an engine that holds no image of the App, and whose registry fails until `isBack` is set. */
function bootWithoutRegistry(options: { ingress: "fake" | "off" }, code = "registry_unreachable") {
  const harness = new ControlPlaneHarness({
    ...options,
    images: { "web:1": {}, "elsewhere/web:1": { held: false, pullMs: 10 } },
  });
  const state = { isBack: false };
  harness.boot({
    beforeCall: ({ name }) => {
      if (name !== "pullImage" || state.isBack) return;
      throw new BerthError(code === "disk_full" ? code : "registry_unreachable", "no answer");
    },
  });
  return { harness, state };
}

test("an app whose registry cannot be reached is failed after the progress deadline, sends a notice, and is still retried", async () => {
  const { harness, state } = bootWithoutRegistry({ ingress: "fake" });
  await using _ = harness;
  harness.apply("web", imageApp);
  await harness.clock.advance(30_000);
  expect(harness.app("web")?.status?.phase).toBe("deploying");
  expect(outcome(harness)).toBeUndefined();
  await harness.clock.advance(31_000);
  expect(harness.app("web")?.status?.phase).toBe("failed");
  expect(harness.condition("web", "Stalled")).toMatchObject({
    status: "True",
    reason: "RegistryUnreachable",
    message: "no answer; Berth keeps trying",
  });
  expect(Date.parse(harness.app("web")?.status?.nextRetryAt ?? "")).toBeGreaterThan(
    harness.clock.now(),
  );
  expect(outcome(harness)).toEqual({ type: "failed", message: "no answer; Berth keeps trying" });
  expect(notices(harness)).toEqual(["failed"]);
  await harness.clock.advance(3_600_000);
  expect(harness.app("web")?.status?.phase).toBe("failed");
  state.isBack = true;
  await harness.waitUntilReady("web", 6 * 60_000);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("a longer progress deadline delays the failure, which is reported when the deadline ends", async () => {
  const { harness } = bootWithoutRegistry({ ingress: "fake" });
  await using _ = harness;
  harness.apply("web", { ...imageApp, rollout: { progressDeadline: "10m" } });
  await harness.clock.advance(9 * 60_000);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
  await harness.clock.advance(61_000);
  expect(harness.condition("web", "Stalled")?.status).toBe("True");
});

test("an update whose registry cannot be reached is stalled, and the serving version keeps running", async () => {
  const { harness, state } = bootWithoutRegistry({ ingress: "fake" });
  await using _ = harness;
  harness.apply("web", { ...imageApp, image: "web:1" });
  await harness.waitUntilReady("web");
  harness.apply("web", imageApp);
  await harness.clock.advance(61_000);
  expect(harness.app("web")?.status?.phase).toBe("degraded");
  expect(outcome(harness)).toMatchObject({ type: "failed" });
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
  harness.apply("web", { ...imageApp, image: "web:1" });
  await harness.waitUntilReady("web");
  expect(harness.condition("web", "Stalled")).toBeUndefined();
  state.isBack = true;
  harness.apply("web", imageApp);
  await harness.waitUntilReady("web");
});

test("an app whose git server cannot be reached is failed after the progress deadline, until the user stops the app", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  const reason = "GitUnreachable";
  harness.builds.resolution = { type: "failed", reason, message: "no answer", terminal: false };
  harness.boot();
  harness.apply("web", sourceApp);
  await harness.clock.advance(70_000);
  expect(harness.app("web")?.status?.phase).toBe("failed");
  expect(harness.condition("web", "Stalled")?.reason).toBe(reason);
  harness.apply("web", { ...sourceApp, running: false });
  await harness.clock.advance(70_000);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("a build that lacks disk space is stalled at once, and starts when there is enough space", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.builds.isDiskFull = true;
  harness.apply("web", sourceApp);
  await harness.clock.advance(10);
  const message = "the build waits for space: 3 MiB are free; it starts when there is enough space";
  expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "DiskFull", message });
  expect(harness.app("web")?.status).toMatchObject({ phase: "failed", nextRetryAt: null });
  expect(outcome(harness)).toEqual({ type: "failed", message });
  await harness.clock.advance(3_600_000);
  expect(harness.builds.asked).toEqual([]);
  harness.builds.freeSpace();
  await harness.waitUntilReady("web");
  expect(harness.builds.asked).toEqual(["commit1"]);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("a pull that fills the engine's disk is stalled at once, and tried again once in five minutes", async () => {
  const { harness, state } = bootWithoutRegistry({ ingress: "fake" }, "disk_full");
  await using _ = harness;
  harness.apply("web", imageApp);
  await harness.clock.advance(1_000);
  expect(outcome(harness)).toMatchObject({ type: "failed" });
  expect(harness.condition("web", "Stalled")?.reason).toBe("DiskFull");
  const { nextRetryAt } = harness.app("web")?.status ?? {};
  expect(Date.parse(nextRetryAt ?? "") - harness.clock.now()).toBeGreaterThan(290_000);
  state.isBack = true;
  await harness.waitUntilReady("web", 301_000);
});
