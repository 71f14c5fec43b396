import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const imagesOf = (world: ControlPlaneHarness) =>
  world.listContainers("web").map((container) => container.spec.image);

test("each replica has a budget of its own, so that an engine restart costs each of them one restart", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", { ...web, replicas: 8 });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  for (const container of world.listContainers("web")) {
    world.engine.kill(container.id, 255);
    await world.clock.advance(300);
  }
  await world.waitUntilReady("web", 5_000);
  world.engine.restart();
  await world.clock.advance(30_000);
  expect(world.isReady("web")).toBe(true);
});

test("replicas that the user removes one by one are no drift loop", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", { ...web, replicas: 5 });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  for (const container of world.listContainers("web")) {
    world.engine.remove(container.id);
    await world.clock.advance(300);
  }
  await world.waitUntilReady("web", 30_000);
  expect(world.condition("web", "Drifted")).toBeUndefined();
});

test("restarts of the old version during a pull do not count against the new version", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": { held: false, pullMs: 120_000 } },
  }).boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  const [old] = world.listContainers("web");
  if (!old) throw new Error("there is no container");
  Object.defineProperty(old, "image", { value: { exits: { afterMs: 500, code: 1 } } });
  world.apply("web", { ...web, image: "web:2" });
  world.engine.kill(old.id, 1);
  await world.waitUntilReady("web", 200_000);
  expect(imagesOf(world)).toEqual(["web:2"]);
});
