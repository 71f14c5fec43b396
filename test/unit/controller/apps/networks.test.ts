import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app.ts";
import { World } from "../../../support/world.ts";

const web: AppSpec = { image: "web:1", port: 80 };

/** An App that was stopped, and then somebody removed all networks that nothing running used. */
async function stoppedAndPruned(): Promise<World> {
  const world = new World({ ingress: "fake" }).boot();
  world.apply("web", web);
  await world.ready("web");
  await world.clock.advance(15_000);
  world.apply("web", { ...web, running: false });
  await world.phase("web", "stopped");
  await world.clock.advance(60_000);
  world.engine.pruneNetworks();
  return world;
}

const saidOf = (world: World) =>
  world.store.events.list({ kind: "App", name: "web", limit: 100 }).map(({ reason }) => reason);

test("an app whose network was pruned while it was stopped starts again, in its own container", async () => {
  await using world = await stoppedAndPruned();
  const [before] = world.containersOf("web");
  world.apply("web", web);
  await world.ready("web");
  expect(world.containersOf("web").map(({ id }) => id)).toEqual([before?.id]);
  expect(world.app("web")?.status?.restarts).toBe(0);
  expect(saidOf(world)).not.toContain("Restarting");
  expect(world.servedBy("web")).toEqual(["web:1"]);
});

test("a network that was pruned and made anew by another app is joined at the start", async () => {
  await using world = await stoppedAndPruned();
  world.apply("other", web);
  await world.ready("other");
  world.apply("web", web);
  await world.ready("web");
  expect(world.app("web")?.status?.restarts).toBe(0);
});

test("a container that ended while nothing else ran comes up on a network of the same name", async () => {
  await using world = new World({ ingress: "fake" }).boot();
  world.apply("web", web);
  await world.ready("web");
  await world.clock.advance(15_000);
  const [container] = world.containersOf("web");
  world.engine.kill(container?.id ?? "", 1);
  world.engine.pruneNetworks();
  await world.clock.advance(30_000);
  expect(world.isReady("web")).toBe(true);
  expect(world.app("web")?.status?.restarts).toBe(1);
});
