import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const imagesOf = (harness: ControlPlaneHarness) =>
  harness.listContainers("web").map((container) => container.spec.image);

test("each replica has a restart budget of its own, so that an engine restart costs each replica one restart", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", { ...web, replicas: 8 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  for (const container of harness.listContainers("web")) {
    harness.engine.kill(container.id, 255);
    await harness.clock.advance(300);
  }
  await harness.waitUntilReady("web", 5_000);
  harness.engine.restart();
  await harness.clock.advance(30_000);
  expect(harness.isReady("web")).toBe(true);
});

test("replicas that the user removes one by one do not count as the same change that returns again and again", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", { ...web, replicas: 5 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  for (const container of harness.listContainers("web")) {
    harness.engine.remove(container.id);
    await harness.clock.advance(300);
  }
  await harness.waitUntilReady("web", 30_000);
  expect(harness.condition("web", "Drifted")).toBeUndefined();
});

test("restarts of the old version during a pull do not count against the new version", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": { held: false, pullMs: 120_000 } },
  }).boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const [old] = harness.listContainers("web");
  if (!old) throw new Error("there is no container");
  Object.defineProperty(old, "image", { value: { exits: { afterMs: 500, code: 1 } } });
  harness.apply("web", { ...web, image: "web:2" });
  harness.engine.kill(old.id, 1);
  await harness.waitUntilReady("web", 200_000);
  expect(imagesOf(harness)).toEqual(["web:2"]);
});
