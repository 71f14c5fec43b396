import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import type { FakeImage } from "../../../support/fake-engine.ts";

const arm: FakeImage = { platform: "linux/arm64/v8", logs: ["arm"] };
const images = {
  "web:1": { platform: "linux/amd64", platforms: { "linux/arm64": arm } },
  "local:1": { platform: "linux/amd64" },
};

const imageOf = (harness: ControlPlaneHarness) => harness.listContainers("web")[0]?.image.platform;

test("an app gets the image of its platform, although the engine holds another one of the same name", async () => {
  await using harness = new ControlPlaneHarness({ images }).boot();
  harness.apply("web", { image: "web:1" });
  await harness.waitUntilReady("web");
  expect(imageOf(harness)).toBe("linux/amd64");
  harness.apply("web", { image: "web:1", platform: "linux/arm64" });
  await harness.waitUntilReady("web");
  expect(imageOf(harness)).toBe("linux/arm64/v8");
  expect(harness.listContainers("web")[0]?.spec.platform).toBe("linux/arm64");
  const { writes } = harness.runtime.calls;
  await harness.clock.advance(600_000);
  expect(harness.runtime.calls.writes).toBe(writes);
});

test("a platform whose image the engine holds needs no pull, with and without its variant", async () => {
  await using harness = new ControlPlaneHarness({ images: { "web:1": arm } }).boot();
  for (const platform of ["linux/arm64", "linux/arm64/v8"]) {
    harness.apply("web", { image: "web:1", platform });
    await harness.waitUntilReady("web");
  }
  expect(harness.runtime.calls.byName.get("pullImage")).toBeUndefined();
});

test("an image that only the engine has is not used for another platform", async () => {
  await using harness = new ControlPlaneHarness({ images }).boot();
  harness.engine.registry.delete("local:1");
  harness.apply("web", { image: "local:1", platform: "linux/arm64" });
  await harness.clock.advance(60_000);
  expect(harness.listContainers("web")).toEqual([]);
  expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "ImageNotFound" });
});

test("containers get the limits of processes, and one that has others is replaced", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", { image: "web:1", ulimits: { nofile: 1024, nproc: { soft: 5, hard: -1 } } });
  await harness.waitUntilReady("web");
  const [container] = harness.listContainers("web");
  const ulimits = [
    { name: "nofile", soft: 1024, hard: 1024 },
    { name: "nproc", soft: 5, hard: -1 },
  ];
  expect(container?.spec.ulimits).toEqual(ulimits);
  harness.engine.recreate(container?.id ?? "", { ulimits: ulimits.slice(0, 1) });
  await harness.clock.advance(120_000);
  await harness.waitUntilReady("web");
  expect(harness.listContainers("web")[0]?.spec.ulimits).toEqual(ulimits);
  expect(harness.store.events.list({ kind: "App", name: "web", limit: 50 })).toContainEqual(
    expect.objectContaining({
      reason: "DriftCorrected",
      message: expect.stringContaining("ulimits"),
    }),
  );
});
