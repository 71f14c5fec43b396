import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };

/** Stops an App, and then removes all networks that no running container uses. */
async function stoppedAndPruned(): Promise<ControlPlaneHarness> {
  const world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", { ...web, running: false });
  await world.waitForPhase("web", "stopped");
  await world.clock.advance(60_000);
  world.engine.pruneNetworks();
  return world;
}

const saidOf = (world: ControlPlaneHarness) =>
  world.store.events.list({ kind: "App", name: "web", limit: 100 }).map(({ reason }) => reason);

test("a stopped app whose network was pruned starts again in the same container", async () => {
  await using world = await stoppedAndPruned();
  const [before] = world.listContainers("web");
  world.apply("web", web);
  await world.waitUntilReady("web");
  expect(world.listContainers("web").map(({ id }) => id)).toEqual([before?.id]);
  expect(world.app("web")?.status?.restarts).toBe(0);
  expect(saidOf(world)).not.toContain("Restarting");
  expect(world.listServedImages("web")).toEqual(["web:1"]);
});

test("a container joins the network that another app has created after a prune", async () => {
  await using world = await stoppedAndPruned();
  world.apply("other", web);
  await world.waitUntilReady("other");
  world.apply("web", web);
  await world.waitUntilReady("web");
  expect(world.app("web")?.status?.restarts).toBe(0);
});

test("a container that ended while no other ran starts on a new network of the same name", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  const [container] = world.listContainers("web");
  world.engine.kill(container?.id ?? "", 1);
  world.engine.pruneNetworks();
  await world.clock.advance(30_000);
  expect(world.isReady("web")).toBe(true);
  expect(world.app("web")?.status?.restarts).toBe(1);
});
