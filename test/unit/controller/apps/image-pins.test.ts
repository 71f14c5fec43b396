import { expect, test } from "vitest";
import {
  createImageHold,
  createRollbackPatch,
  findRollbackTarget,
} from "../../../../src/api/rollback.ts";
import { BerthError } from "../../../../src/base/errors.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import type { FakeFaults } from "../../../support/fake-runtime.ts";
import { applyResource } from "../../../support/test-store.ts";

const web = { image: "web:latest", port: 80 } as const;

async function start(
  spec: Parameters<ControlPlaneHarness["apply"]>[1] = web,
  faults: FakeFaults = {},
) {
  const harness = new ControlPlaneHarness({
    images: { "web:latest": {}, "web:1": {} },
    ingress: "fake",
  }).boot(faults);
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  return harness;
}

const idsOf = (harness: ControlPlaneHarness) =>
  harness.listContainers("web").map(({ imageId }) => imageId);

const revisionsOf = (harness: ControlPlaneHarness) =>
  harness.store.revisions.list("web").map(({ number, imageId }) => [number, imageId]);

const reasonsOf = (harness: ControlPlaneHarness) =>
  harness.store.events.list({ kind: "App", name: "web", limit: 100 }).map(({ reason }) => reason);

/** Lets the old version drain and end. */
const settle = (harness: ControlPlaneHarness) => harness.clock.advance(60_000);

test("a deploy of a tag that has moved in the registry makes a new revision with the new image", async () => {
  await using harness = await start();
  const [first] = idsOf(harness);
  const moved = { logs: ["two"] };
  harness.engine.push("web:latest", moved);
  await harness.clock.advance(600_000);
  expect(idsOf(harness)).toEqual([first]);

  harness.deploy("web");
  await harness.waitUntilReady("web");
  await settle(harness);
  const second = harness.engine.imageId(moved);
  expect(idsOf(harness)).toEqual([second]);
  expect(revisionsOf(harness)).toEqual([
    [2, second],
    [1, first],
  ]);
  expect(harness.store.revisions.get("web", 2)?.digest).toBe(harness.engine.digestOf(moved));
});

test("a deploy of a tag that has not moved keeps the containers and the revision", async () => {
  await using harness = await start();
  const before = harness.listContainers("web").map(({ id }) => id);
  const { writes } = harness.runtime.calls;
  harness.deploy("web");
  await harness.waitUntilReady("web");
  await settle(harness);
  expect(harness.listContainers("web").map(({ id }) => id)).toEqual(before);
  expect(harness.app("web")?.status?.revisions.attempted).toBe(1);
  expect(revisionsOf(harness)).toHaveLength(1);
  expect(harness.runtime.calls.writes).toBe(writes + 1);
});

test("a deploy of a fixed tag uses the image that the engine now has for the tag", async () => {
  await using harness = await start({ ...web, image: "web:1" });
  const moved = {};
  harness.engine.tagImage("web:1", moved);
  const pulls = harness.runtime.calls.byName.get("pullImage") ?? 0;
  harness.deploy("web", "web:1");
  await harness.waitUntilReady("web");
  await settle(harness);
  expect(idsOf(harness)).toEqual([harness.engine.imageId(moved)]);
  expect(harness.runtime.calls.byName.get("pullImage") ?? 0).toBe(pulls);
});

test("with pullPolicy Always a restart resolves the tag again, and otherwise it does not", async () => {
  for (const pullPolicy of ["Always", "IfNotPresent"] as const) {
    await using harness = await start({ ...web, pullPolicy });
    const [first] = idsOf(harness);
    const moved = {};
    harness.engine.push("web:latest", moved);
    harness.engine.tagImage("web:latest", moved);
    harness.restart("web");
    await harness.waitUntilReady("web");
    await settle(harness);
    expect(idsOf(harness)).toEqual([
      pullPolicy === "Always" ? harness.engine.imageId(moved) : first,
    ]);
  }
});

test("all containers of a revision run the same image, even if the tag has moved in the meantime", async () => {
  await using harness = await start({ ...web, image: "web:1", replicas: 2 });
  const [first] = idsOf(harness);
  harness.engine.push("web:1", {});
  harness.engine.addLocalImage("web:1");
  const [removed, killed] = harness.listContainers("web");
  harness.engine.remove(removed?.id ?? "");
  harness.engine.kill(killed?.id ?? "");
  await harness.waitUntilReady("web");
  expect(idsOf(harness)).toEqual([first, first]);

  await harness.kill();
  harness.boot();
  for (const { id } of harness.listContainers("web")) harness.engine.remove(id);
  await harness.clock.advance(120_000);
  expect(idsOf(harness)).toEqual([first, first]);
  expect(harness.isReady("web")).toBe(true);
});

test("an image that was pruned is pulled by its digest", async () => {
  await using harness = await start();
  const [first] = idsOf(harness);
  await harness.clock.advance(30_000);
  harness.engine.push("web:latest", {});
  for (const { id } of harness.listContainers("web")) harness.engine.remove(id);
  harness.engine.localImages.delete("web:latest");
  await harness.clock.advance(120_000);
  expect(idsOf(harness)).toEqual([first]);
  expect(harness.isReady("web")).toBe(true);
});

test("an image that was pruned and is in no registry is not replaced by another image of the same name", async () => {
  await using harness = await start({ ...web, image: "web:1", replicas: 2 });
  const [first] = idsOf(harness);
  await harness.clock.advance(30_000);
  harness.engine.registryDigests.clear();
  const [removed] = harness.listContainers("web");
  harness.engine.remove(removed?.id ?? "");
  harness.engine.localImages.set("web:1", { id: "sha256:other", image: {} });
  await harness.clock.advance(120_000);
  expect(idsOf(harness)).toEqual([first]);
  expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "ImageNotFound" });
  expect(harness.condition("web", "Stalled")?.message).toContain(first);
});

test("an image that only the engine has is used, and the status says so", async () => {
  await using harness = new ControlPlaneHarness({ images: { "web:latest": {} } }).boot();
  harness.engine.registry.clear();
  harness.engine.registryDigests.clear();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  expect(harness.condition("web", "Ready")?.message).toContain("no registry has web:latest");
  expect(reasonsOf(harness)).toContain("EngineOnlyImage");
  expect(harness.app("web")?.status?.memory.image).toMatchObject({ isEngineOnly: true });
});

test("while the registry cannot be reached, a deploy fails and its old version keeps serving, but a restart succeeds", async () => {
  const registry = { isUp: true };
  await using harness = await start(web, {
    beforeCall({ name }) {
      if (name === "pullImage" && !registry.isUp)
        throw new BerthError("registry_unreachable", "no answer from the registry");
    },
  });
  const [first] = idsOf(harness);
  registry.isUp = false;
  harness.restart("web");
  await harness.waitUntilReady("web");
  await settle(harness);
  expect(idsOf(harness)).toEqual([first]);
  expect(reasonsOf(harness)).toContain("ImageKept");

  const moved = {};
  harness.engine.push("web:latest", moved);
  harness.deploy("web");
  await harness.clock.advance(120_000);
  expect(harness.condition("web", "Ready")?.status).toBe("False");
  expect(harness.condition("web", "Stalled")?.message).toContain("no answer from the registry");
  expect(idsOf(harness)).toEqual([first]);
  expect(harness.listServedImages("web")).toEqual(["web:latest"]);
  expect(revisionsOf(harness)).toHaveLength(1);

  registry.isUp = true;
  await harness.waitUntilReady("web", 600_000);
  await settle(harness);
  expect(idsOf(harness)).toEqual([harness.engine.imageId(moved)]);
});

test("a rollback returns to the image of the revision, and keeps it until the next deploy", async () => {
  await using harness = await start();
  const [first] = idsOf(harness);
  await settle(harness);
  harness.engine.push("web:latest", {});
  harness.deploy("web");
  await harness.waitUntilReady("web");
  await settle(harness);
  const [second] = idsOf(harness);
  expect(second).not.toBe(first);

  const app = harness.app("web");
  if (!app) throw new Error("there is no app");
  const target = findRollbackTarget(
    app,
    harness.store.revisions.list("web"),
    undefined,
    harness.store,
  );
  expect(target?.number).toBe(1);
  if (!target) return;
  applyResource(harness.store, "App", "web", createRollbackPatch(app.spec, target.spec), {
    mode: "merge",
    annotations: createImageHold(app, target),
  });
  await harness.waitUntilReady("web");
  await settle(harness);
  expect(idsOf(harness)).toEqual([first]);
  harness.restart("web");
  await harness.waitUntilReady("web");
  await settle(harness);
  expect(idsOf(harness)).toEqual([first]);
  expect(harness.app("web")?.status?.revisions.attempted).toBe(1);

  harness.deploy("web");
  await harness.waitUntilReady("web");
  await settle(harness);
  expect(idsOf(harness)).toEqual([second]);
});

test("an image that cannot be pulled makes no revision with an image id", async () => {
  await using harness = await start({ ...web, image: "web:1" });
  await settle(harness);
  harness.deploy("web", "nowhere:1");
  await harness.clock.advance(60_000);
  expect(harness.condition("web", "Ready")?.reason).toBe("Reverted");
  const [failed, served] = harness.store.revisions.list("web");
  expect(failed).toMatchObject({ image: "nowhere:1", imageId: null, state: "quarantined" });
  expect(served?.imageId).toBe(idsOf(harness)[0]);
});
