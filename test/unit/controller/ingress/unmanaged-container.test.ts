import { expect, test } from "vitest";
import { COMPONENT, INSTANCE } from "../../../../src/controller/labels.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

test("a container in which Berth itself runs belongs to no App and is not removed", async () => {
  const signal = new AbortController().signal;
  await using harness = new ControlPlaneHarness({ images: { "caddy:2": {}, "web:1": {} } });
  harness.boot();
  const { runtime } = harness;
  const labels = { [INSTANCE]: harness.store.instanceId, [COMPONENT]: "ingress" };
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
  harness.apply("web", { image: "web:1", port: 80 });
  await harness.waitUntilReady("web");
  // The wait is long enough for several resyncs, a container's exit, and the deletion of the last App.
  await harness.clock.advance(200_000);
  runtime.kill(id);
  await harness.clock.advance(200_000);
  harness.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await harness.clock.until(() => harness.app("web") === undefined, 60_000, "web is gone");
  expect(harness.engine.find(id)?.labels).toEqual(labels);
});
