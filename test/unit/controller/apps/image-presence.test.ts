import { expect, test } from "vitest";
import { ImagePresence } from "../../../../src/controller/apps/image-presence.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { FakeEngine } from "../../../support/fake-engine.ts";
import { FakeRuntime } from "../../../support/fake-runtime.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

test("the engine's answer about the presence of an image is cached for less than three seconds", async () => {
  const clock = new VirtualClock();
  const engine = new FakeEngine(clock, {});
  engine.setImage("web:1", {});
  const images = new ImagePresence(new FakeRuntime({ clock, engine }), clock);
  const { signal } = new AbortController();
  expect(await images.check("web:1", signal)).toBe("present");
  engine.localImages.delete("web:1");
  expect(await images.check("web:1", signal)).toBe("present");
  await clock.advance(3_000);
  expect(await images.check("web:1", signal)).toBe("absent");
});

test("the strategy recreate keeps the old version running if the image of the new version has been removed", async () => {
  const spec: AppSpec = { image: "web:1", port: 80, volumes: [{ name: "data", path: "/data" }] };
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  for (const image of ["web:1", "web:2", "web:1"]) {
    harness.apply("web", { ...spec, image });
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
  }
  harness.engine.localImages.delete("web:2");
  harness.engine.registry.delete("web:2");
  harness.apply("web", { ...spec, image: "web:2", rollout: { autoRevert: false } });
  await harness.clock.advance(30_000);
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
});
