import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import type { FakeFaults } from "../../../support/fake-runtime.ts";

const images = {
  "web:1": {},
  "web:2": {},
  "job:1": { exits: { afterMs: 5_000, code: 0 } },
  "job:2": { exits: { afterMs: 5_000, code: 0 } },
  "job:bad": { exits: { afterMs: 5_000, code: 3 }, logs: ["the table exists already"] },
};
const web = (image: string): AppSpec => ({ image, port: 80, dependsOn: ["job"] });
const job = (image = "job:1"): AppSpec => ({ image, oneShot: true });

/** Counts the starts of containers, over all boots of a harness. */
function createCounter() {
  let starts = 0;
  const faults: FakeFaults = {
    afterCall: (call) => {
      if (call.name === "startContainer") starts += 1;
    },
  };
  return { faults, count: () => starts };
}

function listRunning(harness: ControlPlaneHarness, app: string): string[] {
  return harness
    .listContainers(app)
    .filter(({ state }) => state === "running")
    .map(({ spec }) => spec.image);
}

test("a one-shot runs once to its end, and an app that depends on it starts afterwards", async () => {
  const { faults, count } = createCounter();
  await using harness = new ControlPlaneHarness({ images }).boot(faults);
  harness.apply("web", web("web:1"));
  harness.apply("job", job());
  await harness.clock.advance(4_000);
  expect(listRunning(harness, "job")).toEqual(["job:1"]);
  expect(harness.condition("job", "Ready")).toMatchObject({
    status: "False",
    reason: "RunningOnce",
  });
  expect(harness.listContainers("web")).toEqual([]);
  await harness.waitUntilReady("web");
  await harness.clock.advance(3_600_000);
  expect(harness.app("job")?.status?.phase).toBe("completed");
  expect(harness.condition("job", "Ready")).toMatchObject({ status: "True", reason: "Completed" });
  expect(harness.condition("job", "Progressing")?.status).toBe("False");
  expect(count()).toBe(2);
});

test("a one-shot that fails keeps back the apps that depend on it, with its exit code and its last line, and a retry runs it again", async () => {
  const { faults, count } = createCounter();
  await using harness = new ControlPlaneHarness({ images }).boot(faults);
  harness.apply("job", job("job:bad"));
  harness.apply("web", web("web:1"));
  await harness.clock.advance(3_600_000);
  expect(harness.app("job")?.status?.phase).toBe("failed");
  expect(harness.condition("job", "Stalled")).toMatchObject({
    status: "True",
    reason: "OneShotFailed",
    message: expect.stringMatching(/exit code 3.*the table exists already/),
  });
  expect(harness.listContainers("web")).toEqual([]);
  expect(harness.condition("web", "Ready")?.message).toMatch(
    /waits for app "job".*exit code 3.*the table exists already/,
  );
  expect(count()).toBe(1);
  harness.retry("job");
  await harness.clock.advance(60_000);
  expect(count()).toBe(2);
  expect(harness.app("job")?.status?.phase).toBe("failed");
});

test("only a version that has not completed runs: neither an earlier version nor a removed container is run again", async () => {
  const { faults, count } = createCounter();
  await using harness = new ControlPlaneHarness({ images }).boot(faults);
  harness.apply("job", job("job:1"));
  await harness.waitUntilReady("job");
  harness.apply("job", job("job:2"));
  await harness.clock.advance(1_000);
  expect(harness.isReady("job")).toBe(false);
  await harness.waitUntilReady("job");
  expect(count()).toBe(2);
  expect(harness.listContainers("job").map(({ spec }) => spec.image)).toEqual(["job:2"]);
  harness.apply("job", job("job:1"));
  await harness.clock.advance(60_000);
  expect(harness.isReady("job")).toBe(true);
  for (const { id } of harness.listContainers("job")) harness.engine.remove(id);
  await harness.clock.advance(600_000);
  expect(harness.isReady("job")).toBe(true);
  expect(count()).toBe(2);
  harness.restart("job");
  await harness.clock.advance(60_000);
  expect(count()).toBe(3);
  expect(harness.app("job")?.status?.phase).toBe("completed");
});

test("a version that fails is not replaced by an earlier version", async () => {
  await using harness = new ControlPlaneHarness({ images }).boot();
  harness.apply("job", job("job:1"));
  await harness.waitUntilReady("job");
  await harness.clock.advance(60_000);
  harness.apply("job", job("job:bad"));
  await harness.clock.advance(600_000);
  expect(harness.condition("job", "Ready")?.reason).toBe("OneShotFailed");
  expect(harness.listContainers("job").map(({ spec }) => spec.image)).toEqual(["job:bad"]);
});

test("an app keeps its running version while the new version of the one-shot that it depends on fails", async () => {
  await using harness = new ControlPlaneHarness({ images }).boot();
  harness.apply("job", job());
  harness.apply("web", web("web:1"));
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  harness.apply("web", web("web:2"));
  harness.apply("job", job("job:bad"));
  await harness.clock.advance(600_000);
  expect(listRunning(harness, "web")).toEqual(["web:1"]);
  harness.apply("job", job("job:2"));
  await harness.waitUntilReady("web");
  expect(listRunning(harness, "web")).toEqual(["web:2"]);
});

test("a run that the end of the machine interrupted is repeated, and a completed one is not", async () => {
  const { faults, count } = createCounter();
  await using harness = new ControlPlaneHarness({ images }).boot(faults);
  harness.apply("job", job());
  await harness.clock.advance(2_000);
  await harness.restartMachine();
  harness.boot(faults);
  await harness.waitUntilReady("job");
  expect(count()).toBe(2);
  await harness.restartMachine();
  harness.boot(faults);
  await harness.clock.advance(600_000);
  expect(harness.isReady("job")).toBe(true);
  expect(count()).toBe(2);
});

test("a one-shot that ends while Berth is not running is completed without a second run", async () => {
  const { faults, count } = createCounter();
  await using harness = new ControlPlaneHarness({ images }).boot(faults);
  harness.apply("job", job());
  await harness.clock.advance(2_000);
  await harness.kill();
  await harness.clock.advance(60_000);
  harness.boot(faults);
  await harness.waitUntilReady("job");
  expect(count()).toBe(1);
});

test("a one-shot that was stopped before its end runs again when it is started", async () => {
  const { faults, count } = createCounter();
  await using harness = new ControlPlaneHarness({ images }).boot(faults);
  harness.apply("job", job());
  await harness.clock.advance(2_000);
  harness.apply("job", { ...job(), running: false });
  await harness.clock.advance(30_000);
  expect(harness.app("job")?.status?.phase).toBe("stopped");
  harness.apply("job", job());
  await harness.waitUntilReady("job");
  expect(count()).toBe(2);
});

test("a completed version is not run again while the image of the next version is pulled", async () => {
  const { faults, count } = createCounter();
  const slow = { ...images["job:2"], held: false, pullMs: 60_000 };
  await using harness = new ControlPlaneHarness({ images: { ...images, "job:2": slow } });
  harness.boot(faults);
  harness.apply("job", job("job:1"));
  await harness.waitUntilReady("job");
  harness.apply("job", job("job:2"));
  await harness.clock.advance(50_000);
  expect(count()).toBe(1);
  await harness.waitUntilReady("job");
  expect(count()).toBe(2);
});
