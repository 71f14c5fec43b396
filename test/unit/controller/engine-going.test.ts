import { expect, test } from "vitest";
import type { AppSpec } from "../../../src/resources/app.ts";
import { World } from "../../support/world.ts";

const web: AppSpec = { image: "web:1", port: 80 };

const started = (world: World) => world.runtime.calls.byName.get("startContainer") ?? 0;

test("an engine that is shutting down starts nothing, and what it ends is not held against the apps", async () => {
  await using world = new World();
  world.boot();
  world.apply("usual", web);
  world.apply("never-again", { ...web, restart: { attempts: 0 } });
  await world.ready("usual");
  await world.ready("never-again");
  const before = world.engine.containers().map(({ id }) => id);
  world.runtime.resetCalls();

  world.engine.shutDown();
  // Longer than all restarts of a budget take.
  await world.clock.advance(60_000);
  expect(started(world)).toBe(0);
  for (const name of ["usual", "never-again"]) {
    expect(world.condition(name, "Ready")).toMatchObject({ status: "Unknown" });
    expect(world.condition(name, "Stalled")).toBeUndefined();
  }

  world.engine.setReachable(false);
  await world.clock.advance(5_000);
  world.engine.setReachable(true);
  await world.ready("usual");
  await world.ready("never-again");
  expect(world.app("usual")?.status?.restarts).toBe(0);
  expect(world.engine.containers().map(({ id }) => id)).toEqual(before);
});

test("an engine may be restarted as often as it likes", async () => {
  await using world = new World();
  world.boot();
  world.apply("web", web);
  await world.ready("web");
  for (let round = 0; round < 12; round += 1) {
    world.engine.restart();
    await world.clock.until(
      () => world.containersOf("web").some(({ state }) => state === "running"),
      20_000,
      `it runs again, ${round}`,
    );
    await world.clock.advance(3_000);
  }
  expect(world.isReady("web")).toBe(true);
  expect(world.app("web")?.status?.restarts).toBe(0);
});

test("a restart of the engine gives an app that ends by itself one more start, not a new budget", async () => {
  await using world = new World({ images: { "crash:1": { exits: { afterMs: 500, code: 1 } } } });
  world.boot();
  world.apply("web", { image: "crash:1", restart: { attempts: 2 } });
  await world.clock.until(
    () => world.app("web")?.status?.restarts === 1,
    20_000,
    "it was restarted once",
  );
  world.runtime.resetCalls();
  world.engine.restart();
  await world.phase("web", "failed");
  expect(world.condition("web", "Stalled")?.reason).toBe("CrashLoop");
  // One that is free, and the one that was left.
  expect(started(world)).toBe(2);
});
