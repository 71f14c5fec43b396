import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

/** Berth never gives up a version that has been stable, because its later failures have outside causes that may end. */

const dies = { exits: { afterMs: 300, code: 1 } };

/** Makes the containers of the app behave like `image` from their next start on. */
function setBehaviour(harness: ControlPlaneHarness, image: object): void {
  harness.engine.setBehaviour("web:1", image);
  for (const container of harness.listContainers("web"))
    Object.defineProperty(container, "image", { value: image, configurable: true });
}

async function stable(harness: ControlPlaneHarness): Promise<void> {
  harness.boot();
  harness.apply("web", { image: "web:1", port: 80 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
}

/** Simulates an outage of `ms` milliseconds of a service that the app needs. Returns the number of container starts. */
async function outage(harness: ControlPlaneHarness, ms: number): Promise<number> {
  const countStarts = () => harness.runtime.calls.byName.get("startContainer") ?? 0;
  setBehaviour(harness, dies);
  for (const { id } of harness.listContainers("web")) harness.engine.kill(id, 1);
  const before = countStarts();
  await harness.clock.advance(ms);
  return countStarts() - before;
}

test("an outage of two hours causes few restarts, and the app is back within five minutes", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await stable(harness);
  const starts = await outage(harness, 2 * 60 * 60_000);
  // The delays are 1, 2, 4 ... 256 seconds, and then five minutes each.
  expect(starts).toBeGreaterThan(20);
  expect(starts).toBeLessThanOrEqual(10 + (2 * 60) / 5);
  expect(harness.app("web")?.status?.phase).toBe("failed");
  expect(harness.condition("web", "Stalled")).toMatchObject({
    status: "True",
    reason: "CrashLoop",
  });
  const nextRetryAt = Date.parse(harness.app("web")?.status?.nextRetryAt ?? "");
  expect(nextRetryAt).toBeGreaterThan(harness.clock.now());
  expect(nextRetryAt).toBeLessThanOrEqual(harness.clock.now() + 5 * 60_000);
  setBehaviour(harness, {});
  await harness.waitUntilReady("web", 5 * 60_000 + 5_000);
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("a restart of Berth during an outage does not shorten the delays between restarts of the app, which recovers afterwards", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await stable(harness);
  await outage(harness, 30 * 60_000);
  await harness.kill();
  harness.boot();
  await harness.clock.advance(30 * 60_000);
  expect(harness.runtime.calls.byName.get("startContainer") ?? 0).toBeLessThanOrEqual(7);
  setBehaviour(harness, {});
  await harness.waitUntilReady("web", 5 * 60_000 + 5_000);
});

test("Berth does not give up a stable version that the user restarts during an outage", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await stable(harness);
  setBehaviour(harness, dies);
  harness.restart("web");
  await harness.clock.advance(60 * 60_000);
  expect(harness.isReady("web")).toBe(false);
  setBehaviour(harness, {});
  await harness.waitUntilReady("web", 10 * 60_000);
});

test("the outage of a dependency does not use up the restart budget of the app that waits for it", async () => {
  await using harness = new ControlPlaneHarness({ images: { "db:1": {}, "web:1": {} } });
  harness.boot();
  harness.apply("db", { image: "db:1", port: 5432 });
  harness.apply("web", { image: "web:1", port: 80, dependsOn: ["db"] });
  await harness.waitUntilReady("web");
  harness.apply("db", { image: "db:1", port: 5432, running: false });
  await harness.waitForPhase("db", "stopped");
  await outage(harness, 20 * 60_000);
  expect(harness.condition("web", "Ready")?.status).toBe("False");
  setBehaviour(harness, {});
  harness.apply("db", { image: "db:1", port: 5432 });
  await harness.waitUntilReady("web", 6 * 60_000);
});

test("a host port that is in use does not use up the restart budget, and the app starts when the port is free", async () => {
  await using harness = new ControlPlaneHarness({ images: { "web:1": {} } });
  harness.boot();
  const ports = [{ container: 80, host: 8080 }];
  harness.apply("other", { image: "web:1", ports });
  await harness.waitUntilReady("other");
  harness.apply("web", { image: "web:1", ports, restart: { attempts: 2 } });
  await harness.clock.advance(30 * 60_000);
  expect(harness.app("web")?.status?.restarts).toBe(0);
  expect(harness.condition("web", "Ready")?.message).toContain("8080");
  expect(harness.condition("web", "Stalled")).toBeUndefined();
  harness.apply("other", { image: "web:1", running: false });
  await harness.waitUntilReady("web", 6 * 60_000);
});
