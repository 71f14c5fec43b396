import { expect, test } from "vitest";
import { createSameSourcePatch } from "../../../../src/api/deploy-patches.ts";
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

function annotate(world: ControlPlaneHarness, annotations: Record<string, string | null>): void {
  world.store.apply({
    kind: "App",
    name: "web",
    manager: "api",
    actor: { name: "test" },
    mode: "merge",
    spec: {},
    annotations,
  });
}

/** Makes the source resolve to another commit, and reports the change. */
function push(world: ControlPlaneHarness, head: string): void {
  world.builds.head = head;
  world.manager.apps.enqueue("web");
}

async function deployed(world: ControlPlaneHarness): Promise<void> {
  world.boot();
  world.apply("web", app);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
}

test("a source is built, then runs; the condition shows the progress", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", app);
  await world.clock.until(
    () => world.condition("web", "Built")?.reason === "Building",
    10_000,
    "it is being built",
  );
  expect(world.app("web")?.status?.phase).toBe("building");
  expect(world.condition("web", "Built")?.message).toContain("RUN make");
  await world.waitUntilReady("web");
  expect(world.condition("web", "Built")).toMatchObject({ status: "True", reason: "Succeeded" });
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
  expect(world.builds.asked).toEqual(["commit1"]);
});

test("the previous version serves until the new commit is built and healthy", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  push(world, "commit2");
  const seen = new Set<string>();
  await world.clock.until(
    () => {
      for (const image of world.listServedImages("web")) seen.add(image);
      if (world.listServedImages("web").length === 0) seen.add("nobody");
      return world.listServedImages("web")[0] === world.builds.getImage("web", "commit2");
    },
    60_000,
    "commit2 serves",
  );
  expect([...seen]).toEqual(["commit1", "commit2"].map((it) => world.builds.getImage("web", it)));
  await world.waitUntilReady("web");
});

test("a build that fails leaves the previous version running, and is not retried by itself", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  world.builds.scripts.set("bad", { failure });
  push(world, "bad");
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    60_000,
    "it went back",
  );
  expect(world.condition("web", "Built")).toMatchObject({ status: "False", reason: "BuildFailed" });
  expect(world.condition("web", "Built")?.message).toContain("RUN make");
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
  await world.clock.advance(30 * 60_000);
  expect(world.builds.asked).toEqual(["commit1", "bad"]);
  push(world, "commit3");
  await world.waitUntilReady("web");
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit3")]);
});

test("without a version to revert to, a failed build stalls the app until the user retries", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.builds.scripts.set("commit1", { failure });
  world.apply("web", app);
  await world.waitForPhase("web", "failed");
  expect(world.condition("web", "Stalled")).toMatchObject({ reason: "BuildFailed" });
  await world.clock.advance(60 * 60_000);
  expect(world.builds.asked).toEqual(["commit1"]);
  world.builds.scripts.clear();
  world.retry("web");
  await world.waitUntilReady("web");
  expect(world.builds.asked).toEqual(["commit1", "commit1"]);
});

test("a failure that may pass is retried", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  const message = "no space left for the image";
  world.builds.scripts.set("commit1", {
    failure: { reason: "DiskFull", message, terminal: false },
  });
  world.apply("web", app);
  await world.clock.until(
    () => world.condition("web", "Ready")?.message.includes("no space left") ?? false,
    60_000,
    "the app says why",
  );
  await world.clock.until(() => world.builds.asked.length > 2, 60_000, "it is tried again");
  world.builds.scripts.clear();
  await world.waitUntilReady("web");
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
});

test("the last good version keeps running while its source cannot be resolved", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  const denied = { type: "failed", reason: "GitDenied", message: "wants a token", terminal: true };
  world.builds.head = { ...denied, type: "failed" };
  annotate(world, { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "GitDenied",
    60_000,
    "the app says why",
  );
  expect(world.condition("web", "Stalled")).toMatchObject({ reason: "GitDenied" });
  const [container] = world.listContainers("web");
  world.engine.kill(container?.id ?? "", 1);
  await world.clock.until(
    () => world.listServedImages("web").length === 1,
    60_000,
    "it serves again",
  );
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
  world.builds.head = "commit2";
  world.retry("web");
  await world.waitUntilReady("web");
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit2")]);
});

test("each commit is a revision, and the user can pin an earlier one", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  push(world, "commit2");
  await world.clock.advance(60_000);
  await world.waitUntilReady("web");
  expect(world.store.revisions.list("web").map(({ image }) => image)).toEqual(
    ["commit2", "commit1"].map((it) => world.builds.getImage("web", it)),
  );
  annotate(world, { [SOURCE_REVISION_ANNOTATION]: "commit1" });
  await world.clock.until(
    () => world.listServedImages("web")[0] === world.builds.getImage("web", "commit1"),
    60_000,
    "commit1 serves",
  );
  expect(world.app("web")?.status?.revisions.attempted).toBe(1);
  // An image that exists is not built again.
  expect(world.builds.asked).toEqual(["commit1", "commit2"]);
});

test("a commit that builds but fails is reverted, and the next one is deployed", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  world.builds.scripts.set("commit2", { image: { exits: { afterMs: 10, code: 1 } } });
  push(world, "commit2");
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
  push(world, "commit3");
  await world.waitUntilReady("web");
});

test("a build that a kill of Berth has interrupted is repeated, while the previous version serves", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  push(world, "commit2");
  await world.clock.until(() => world.builds.asked.length === 2, 10_000, "commit2 is built");
  await world.kill();
  await world.clock.advance(60_000);
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
  world.boot();
  await world.clock.until(
    () => world.listServedImages("web")[0] === world.builds.getImage("web", "commit2"),
    60_000,
    "commit2 serves",
  );
  expect(world.builds.asked).toEqual(["commit1", "commit2", "commit2"]);
});

test("while another source is being resolved, the status reports that and not the earlier failure", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  world.builds.scripts.set("bad", { failure });
  push(world, "bad");
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    60_000,
    "it went back",
  );
  world.builds.head = { type: "resolving", message: "asking git.example.org for the branch" };
  annotate(world, { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  await world.clock.until(
    () => world.app("web")?.status?.observedGeneration === world.app("web")?.metadata.generation,
    60_000,
    "the new generation was looked at",
  );
  expect(world.condition("web", "Ready")).toMatchObject({
    status: "False",
    reason: "ResolvingSource",
  });
});

test("a deploy after a cancelled build builds again, as the message says", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" });
  await deployed(world);
  const cancelled = { reason: "BuildCancelled", message: "deploy again", terminal: true };
  world.builds.scripts.set("commit2", { failure: cancelled });
  push(world, "commit2");
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    60_000,
    "it went back",
  );
  world.builds.scripts.clear();
  const { annotations } = createSameSourcePatch(world.clock.now());
  annotate(world, annotations ?? {});
  await world.waitUntilReady("web");
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit2")]);
});

test("an image counts as built even if Berth was killed before it recorded the build", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", app);
  await world.waitUntilReady("web");
  const build = world.store.builds.findByImage(world.builds.getImage("web", "commit1"));
  // The next start marks a record that still says "running" as abandoned; the image is on the engine.
  world.store.builds.mark(build?.id ?? 0, "abandoned", { message: "Berth ended" });
  await world.kill();
  world.boot();
  await world.waitUntilReady("web");
  await world.clock.advance(120_000);
  expect(world.condition("web", "Built")).toMatchObject({ status: "True", reason: "Succeeded" });
});
