import { expect, test } from "vitest";
import { COMPONENT, INSTANCE } from "../../../../src/controller/labels.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

test("a container of Berth itself belongs to no App and is not removed", async () => {
  const signal = new AbortController().signal;
  await using world = new ControlPlaneHarness({ images: { "caddy:2": {}, "web:1": {} } });
  world.boot();
  const { runtime } = world;
  const labels = { [INSTANCE]: world.store.instanceId, [COMPONENT]: "ingress" };
  await runtime.ensureNetwork("berth-net", labels, signal);
  const id = await runtime.createContainer(
    {
      name: "berth-ingress",
      image: "caddy:2",
      labels,
      env: [],
      network: "berth-net",
      aliases: [],
      mounts: [],
      publish: [],
      stopGraceMs: 0,
    },
    signal,
  );
  await runtime.startContainer(id, signal);
  world.apply("web", { image: "web:1", port: 80 });
  await world.waitUntilReady("web");
  // Time for several resyncs, a container's exit, and the deletion of the last App.
  await world.clock.advance(200_000);
  runtime.kill(id);
  await world.clock.advance(200_000);
  world.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await world.clock.until(() => world.app("web") === undefined, 60_000, "web is gone");
  expect(world.engine.find(id)?.labels).toEqual(labels);
});
