import { expect, test } from "vitest";
import { createRedeployPatch } from "../../../../src/api/deploy-patches.ts";
import type { SourceState } from "../../../../src/controller/builds/port.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  SOURCE_REVISION_ANNOTATION,
} from "../../../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const app: AppSpec = { source: { git: { url: "https://git.example.org/web.git" } }, port: 80 };
const failure = {
  reason: "BuildFailed",
  message: "step 2 of 2 (RUN make) failed with exit code 2; last lines: no rule",
  terminal: true,
};

/** Makes the source resolve to another commit, and reports the change. */
function push(harness: ControlPlaneHarness, head: string): void {
  harness.builds.head = head;
  harness.manager.apps.enqueue("web");
}

async function deployed(harness: ControlPlaneHarness): Promise<void> {
  harness.boot();
  harness.apply("web", app);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
}

test("the source of an app is built before the app runs, and the condition Built reports the progress", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", app);
  await harness.clock.until(
    () => harness.condition("web", "Built")?.reason === "Building",
    10_000,
    "it is being built",
  );
  expect(harness.app("web")?.status?.phase).toBe("building");
  expect(harness.condition("web", "Built")?.message).toContain("RUN make");
  await harness.waitUntilReady("web");
  expect(harness.condition("web", "Built")).toMatchObject({ status: "True", reason: "Succeeded" });
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
  expect(harness.builds.asked).toEqual(["commit1"]);
});

test("the previous version serves requests until the new commit is built and healthy", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  push(harness, "commit2");
  const seen = new Set<string>();
  await harness.clock.until(
    () => {
      for (const image of harness.listServedImages("web")) seen.add(image);
      if (harness.listServedImages("web").length === 0) seen.add("nobody");
      return harness.listServedImages("web")[0] === harness.builds.getImage("web", "commit2");
    },
    60_000,
    "commit2 serves",
  );
  expect([...seen]).toEqual(["commit1", "commit2"].map((it) => harness.builds.getImage("web", it)));
  await harness.waitUntilReady("web");
});

test("a build that fails leaves the previous version running, and is not retried automatically", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  harness.builds.scripts.set("bad", { failure });
  push(harness, "bad");
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    60_000,
    "it went back",
  );
  expect(harness.condition("web", "Built")).toMatchObject({
    status: "False",
    reason: "BuildFailed",
  });
  expect(harness.condition("web", "Built")?.message).toContain("RUN make");
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
  await harness.clock.advance(30 * 60_000);
  expect(harness.builds.asked).toEqual(["commit1", "bad"]);
  push(harness, "commit3");
  await harness.waitUntilReady("web");
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit3")]);
});

test("a failed build of an app without a previous version stalls the app until the user retries", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.builds.scripts.set("commit1", { failure });
  harness.apply("web", app);
  await harness.waitForPhase("web", "failed");
  expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "BuildFailed" });
  await harness.clock.advance(60 * 60_000);
  expect(harness.builds.asked).toEqual(["commit1"]);
  harness.builds.scripts.clear();
  harness.retry("web");
  await harness.waitUntilReady("web");
  expect(harness.builds.asked).toEqual(["commit1", "commit1"]);
});

test("a build that fails for a temporary reason is retried", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  const message = "the engine has failed";
  harness.builds.scripts.set("commit1", {
    failure: { reason: "EngineError", message, terminal: false },
  });
  harness.apply("web", app);
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.message.includes(message) ?? false,
    60_000,
    "the app says why",
  );
  await harness.clock.until(() => harness.builds.asked.length > 2, 60_000, "it is tried again");
  harness.builds.scripts.clear();
  await harness.waitUntilReady("web");
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
});

test("the last good version keeps running while its source cannot be resolved", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  const denied = { type: "failed", reason: "GitDenied", message: "wants a token", terminal: true };
  harness.builds.head = { ...denied, type: "failed" };
  harness.annotate("web", { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "GitDenied",
    60_000,
    "the app says why",
  );
  expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "GitDenied" });
  const [container] = harness.listContainers("web");
  harness.engine.kill(container?.id ?? "", 1);
  await harness.clock.until(
    () => harness.listServedImages("web").length === 1,
    60_000,
    "it serves again",
  );
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
  harness.builds.head = "commit2";
  harness.retry("web");
  await harness.waitUntilReady("web");
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit2")]);
});

test("each commit becomes a revision, and the user can pin an earlier commit", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  push(harness, "commit2");
  await harness.clock.advance(60_000);
  await harness.waitUntilReady("web");
  expect(harness.store.revisions.list("web").map(({ image }) => image)).toEqual(
    ["commit2", "commit1"].map((it) => harness.builds.getImage("web", it)),
  );
  harness.annotate("web", { [SOURCE_REVISION_ANNOTATION]: "commit1" });
  await harness.clock.until(
    () => harness.listServedImages("web")[0] === harness.builds.getImage("web", "commit1"),
    60_000,
    "commit1 serves",
  );
  expect(harness.app("web")?.status?.revisions.attempted).toBe(1);
  // Berth does not build a commit again if its image exists.
  expect(harness.builds.asked).toEqual(["commit1", "commit2"]);
});

test("a version whose commit builds but then fails is reverted, and the next commit is deployed", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  harness.builds.scripts.set("commit2", { image: { exits: { afterMs: 10, code: 1 } } });
  push(harness, "commit2");
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
  push(harness, "commit3");
  await harness.waitUntilReady("web");
});

test("a build that a kill of Berth has interrupted is repeated, while the previous version serves requests", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  push(harness, "commit2");
  await harness.clock.until(() => harness.builds.asked.length === 2, 10_000, "commit2 is built");
  await harness.kill();
  await harness.clock.advance(60_000);
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
  harness.boot();
  await harness.clock.until(
    () => harness.listServedImages("web")[0] === harness.builds.getImage("web", "commit2"),
    60_000,
    "commit2 serves",
  );
  expect(harness.builds.asked).toEqual(["commit1", "commit2", "commit2"]);
});

test("while another source is being resolved, the status reports the resolution and not the earlier failure", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  harness.builds.scripts.set("bad", { failure });
  push(harness, "bad");
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    60_000,
    "it went back",
  );
  harness.builds.head = { type: "resolving", message: "asking git.example.org for the branch" };
  harness.annotate("web", { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  await harness.clock.until(
    () =>
      harness.app("web")?.status?.observedGeneration === harness.app("web")?.metadata.generation,
    60_000,
    "the new generation was looked at",
  );
  expect(harness.condition("web", "Ready")).toMatchObject({
    status: "False",
    reason: "ResolvingSource",
  });
});

test("a deploy after a cancelled build starts a new build, as the cancellation message announces", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  const cancelled = { reason: "BuildCancelled", message: "deploy again", terminal: true };
  harness.builds.scripts.set("commit2", { failure: cancelled });
  push(harness, "commit2");
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    60_000,
    "it went back",
  );
  harness.builds.scripts.clear();
  const { annotations } = createRedeployPatch(harness.clock.now());
  harness.annotate("web", annotations ?? {});
  await harness.waitUntilReady("web");
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit2")]);
});

test("an image counts as built even if Berth was killed before it recorded the build", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", app);
  await harness.waitUntilReady("web");
  const build = harness.store.builds.findByImage(harness.builds.getImage("web", "commit1"));
  // Marks the build as abandoned, as Berth does at its next start with a build that a kill has interrupted. The image
  // of this build already exists on the engine.
  harness.store.builds.mark(build?.id ?? 0, "abandoned", { message: "Berth ended" });
  await harness.kill();
  harness.boot();
  await harness.waitUntilReady("web");
  await harness.clock.advance(120_000);
  expect(harness.condition("web", "Built")).toMatchObject({ status: "True", reason: "Succeeded" });
});

test("the deletion of a followed branch is reported as a condition, and the app stays Ready", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(harness);
  const resolved = {
    type: "resolved",
    revision: "commit1",
    image: harness.builds.getImage("web", "commit1"),
  } as const;
  const fetchFailure = { reason: "GitNotFound", message: "there is no branch main" };
  const set = async (state: SourceState) => {
    harness.builds.head = state;
    harness.manager.apps.enqueue("web");
    await harness.clock.advance(1_000);
  };
  await set({ ...resolved, fetchFailure });
  expect(harness.condition("web", "FetchFailed")).toMatchObject({
    status: "True",
    ...fetchFailure,
  });
  expect(harness.isReady("web")).toBe(true);
  await set(resolved);
  expect(harness.condition("web", "FetchFailed")).toBeUndefined();
});
