import { expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { RetryTimes } from "../../../../src/controller/apps/retry-times.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

/**
 * The maximum number of tries in an hour: 11 until the delay has grown from 250 ms to the cap of 5 minutes, and then
 * one every 4 minutes, because jitter shortens the delay by up to a fifth.
 */
const TRIES_MAX = 11 + 60 / 4;
const gitApp = { source: { git: { url: "https://git.example.org/web.git" } }, port: 80 };

const imageApp = (image: string) => ({ image, port: 80, healthCheck: { interval: "60s" } });

/** Enqueues the app every 14.9 s for this time, as the events of a container that keeps restarting would. */
async function passNoisyMinutes(harness: ControlPlaneHarness, minutes: number): Promise<void> {
  for (let elapsedMs = 0; elapsedMs < minutes * 60_000; elapsedMs += 14_900) {
    harness.manager.apps.enqueue("web");
    await harness.clock.advance(14_900);
  }
}

const isDueLater = (harness: ControlPlaneHarness) =>
  Date.parse(harness.app("web")?.status?.nextRetryAt ?? "") >= harness.clock.now();

test("a git server that is unreachable for an hour is contacted no more often than the back-off allows", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", random: Math.random });
  const reason = "GitUnreachable";
  harness.builds.resolution = { type: "failed", reason, message: "no answer", terminal: false };
  harness.boot();
  harness.apply("web", gitApp);
  await passNoisyMinutes(harness, 60);
  expect(harness.builds.resolutions).toBeGreaterThan(10);
  expect(harness.builds.resolutions).toBeLessThanOrEqual(TRIES_MAX);
  expect(harness.condition("web", "Ready")?.message).toContain("no answer");
  expect(isDueLater(harness)).toBe(true);
});

test("an outage of the git server does not affect the version that serves requests, and a deploy contacts the git server at once", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", random: Math.random }).boot();
  harness.apply("web", imageApp("web:1"));
  await harness.waitUntilReady("web");
  const reason = "GitUnreachable";
  harness.builds.resolution = { type: "failed", reason, message: "no answer", terminal: false };
  harness.apply("web", gitApp);
  await passNoisyMinutes(harness, 60);
  expect(harness.builds.resolutions).toBeLessThanOrEqual(TRIES_MAX);
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
  harness.builds.resolution = undefined;
  harness.controlPlane.wake("App", "web");
  await harness.waitUntilReady("web", 10_000);
});

test("a clock that is set back by a day does not delay the next try", () => {
  let now = 1_900_000_000_000;
  const retries = new RetryTimes({ now: () => now, setTimer: () => () => {} }, () => 0.5);
  retries.fail("web", "pull", new BerthError("engine_error", "no answer"), { deadlineMs: 60_000 });
  expect(retries.getWait("web", "pull")?.message).toBe("no answer");
  now -= 24 * 60 * 60_000;
  expect(retries.getWait("web", "pull")).toBeUndefined();
});

test("a registry that is unreachable for an hour is contacted no more often than the back-off allows", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", random: Math.random });
  let pulls = 0;
  harness.boot({
    beforeCall: ({ name }) => {
      if (name !== "pullImage") return;
      pulls += 1;
      throw new BerthError("engine_error", "the registry does not answer");
    },
  });
  harness.apply("web", { image: "elsewhere/web:1", port: 80 });
  await passNoisyMinutes(harness, 60);
  expect(pulls).toBeGreaterThan(10);
  expect(pulls).toBeLessThanOrEqual(TRIES_MAX);
  expect(isDueLater(harness)).toBe(true);
});

test("a build that fails for a temporary reason is repeated no more often than the back-off allows", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake", random: Math.random });
  const failure = { reason: "EngineError", message: "no such luck", terminal: false };
  harness.builds.scripts.set("commit1", { failure });
  harness.boot();
  harness.apply("web", gitApp);
  await passNoisyMinutes(harness, 60);
  expect(harness.builds.asked.length).toBeGreaterThan(10);
  expect(harness.builds.asked.length).toBeLessThanOrEqual(TRIES_MAX);
});

test("a stop that the engine refuses is repeated at growing intervals, and the engine is not called in a loop", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  let stops = 0;
  let isRefused = true;
  harness.boot({
    beforeCall: ({ name }) => {
      if (name !== "stopContainer" || !isRefused) return;
      stops += 1;
      throw new BerthError("engine_error", "permission denied");
    },
  });
  harness.apply("web", imageApp("web:1"));
  await harness.waitUntilReady("web");
  harness.apply("web", imageApp("web:2"));
  await harness.waitUntilReady("web");
  await passNoisyMinutes(harness, 20);
  // Berth waits 1, 2, 4, 8, 16 and 32 seconds between the first attempts to stop the container, and then one minute.
  expect(stops).toBeGreaterThan(10);
  expect(stops).toBeLessThanOrEqual(6 + 20);
  isRefused = false;
  await harness.clock.advance(120_000);
  expect(harness.listContainers("web").map(({ spec }) => spec.image)).toEqual(["web:2"]);
});
