import { expect, test } from "vitest";
import type { PlannedResource } from "../../../../src/controller/port.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

test("a dry run does not miss a Secret that the same request makes", async () => {
  await using world = new ControlPlaneHarness().boot();
  const signal = new AbortController().signal;
  const spec = { image: "web:1", env: { TOKEN: { secret: "web-token" } } };
  const secret = {
    kind: "Secret",
    name: "web-token",
    manager: "api",
    actor: { name: "user:admin" },
  } as const;
  const data = { value: "hush" };
  const { resource } = world.store.apply({
    ...secret,
    mode: "replace",
    spec: { data },
    dryRun: true,
  });
  const alone = await world.controlPlane.planApp("web", spec, signal);
  expect(alone.blockedBy).toContain("berth secrets set web-token value=VALUE");
  expect(alone.operations).toEqual([]);

  const alongside: PlannedResource[] = [{ resource, values: data }];
  const together = await world.controlPlane.planApp("web", spec, signal, {}, alongside);
  expect(together.blockedBy).toBeNull();
  expect(together.operations.map(({ operation }) => operation)).toContain("createContainer");
  expect(world.store.get("Secret", "web-token")).toBeUndefined();
});

test("a dry run finds a circle through an app that the same request makes", async () => {
  await using world = new ControlPlaneHarness().boot();
  const signal = new AbortController().signal;
  const database = { image: "web:1", dependsOn: ["web"] };
  const { resource } = world.store.apply({
    kind: "App",
    name: "db",
    manager: "api",
    actor: { name: "user:admin" },
    mode: "replace",
    spec: database,
    dryRun: true,
  });
  const spec = { image: "web:1", dependsOn: ["db"] };
  const report = await world.controlPlane.planApp("web", spec, signal, {}, [{ resource }]);
  expect(report.blockedBy).toContain("circle");
});
