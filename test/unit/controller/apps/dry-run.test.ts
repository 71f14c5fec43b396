import { expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import type { PlannedResource } from "../../../../src/controller/port.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

test("a dry run finds a Secret that the same request creates", async () => {
  await using harness = new ControlPlaneHarness().boot();
  const signal = new AbortController().signal;
  const spec = { image: "web:1", env: { TOKEN: { secret: "web-token" } } };
  const secret = {
    kind: "Secret",
    name: "web-token",
    manager: "api",
    actor: { name: "user:admin" },
  } as const;
  const data = { value: "hush" };
  const { resource } = harness.store.apply({
    ...secret,
    mode: "replace",
    spec: { data },
    dryRun: true,
  });
  const alone = await harness.controlPlane.planApp("web", spec, signal);
  expect(alone.blockedBy).toContain("berth secrets set web-token value=VALUE");
  expect(alone.operations).toEqual([]);

  const alongside: PlannedResource[] = [{ resource, values: data }];
  const together = await harness.controlPlane.planApp("web", spec, signal, {}, alongside);
  expect(together.blockedBy).toBeNull();
  expect(together.operations.map(({ operation }) => operation)).toContain("createContainer");
  expect(harness.store.get("Secret", "web-token")).toBeUndefined();
});

test("a dry run finds a dependency cycle through an app that the same request creates", async () => {
  await using harness = new ControlPlaneHarness().boot();
  const signal = new AbortController().signal;
  const database = { image: "web:1", dependsOn: ["web"] };
  const { resource } = harness.store.apply({
    kind: "App",
    name: "db",
    manager: "api",
    actor: { name: "user:admin" },
    mode: "replace",
    spec: database,
    dryRun: true,
  });
  const spec = { image: "web:1", dependsOn: ["db"] };
  const report = await harness.controlPlane.planApp("web", spec, signal, {}, [{ resource }]);
  expect(report.blockedBy).toContain("dependsOn has a cycle");
});

async function planOperations(harness: ControlPlaneHarness, spec?: AppSpec): Promise<string[]> {
  const { signal } = new AbortController();
  const { operations } = await harness.controlPlane.planApp("web", spec, signal);
  return operations.map(({ operation, cause }) => `${operation}: ${cause}`);
}

test("a dry run shows that a container that has become unhealthy will be restarted", async () => {
  await using harness = new ControlPlaneHarness().boot({
    beforeCall: ({ name }) => {
      if (name === "stopContainer") throw new BerthError("engine_error", "no stop today");
    },
  });
  harness.apply("web", { image: "web:1", healthCheck: { command: ["true"], interval: "1s" } });
  await harness.waitUntilReady("web");
  const [container] = harness.listContainers("web");
  harness.engine.makeUnhealthy(container?.id ?? "");
  await harness.clock.advance(60_000);
  const cause = "unhealthy: true exited with 1";
  expect(await planOperations(harness)).toEqual([
    `stopContainer: ${cause}`,
    "ensureNetwork: the app's network",
    `startContainer: ${cause}`,
  ]);
});

test("a dry run shows that a surplus container that has drained will be stopped", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  const web = { image: "web:1", port: 80, replicas: 2, rollout: { drain: "10m" } };
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  const single = { ...web, replicas: 1 };
  harness.apply("web", single);
  await harness.clock.advance(30_000);
  expect(await planOperations(harness)).toEqual([]);
  const impatient = { ...single, rollout: { drain: "10s" } };
  expect(await planOperations(harness, impatient)).toEqual(["stopContainer: 1 wanted"]);
});

test("a dry run shows that requests will switch to a new version that is healthy", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  const web = { image: "web:1", port: 80 };
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  if (harness.routes)
    harness.routes.faults.before = () => {
      throw new BerthError("engine_error", "no change of routes today");
    };
  harness.apply("web", { ...web, image: "web:2" });
  await harness.clock.advance(10_000);
  const events = harness.store.events.list({ kind: "App", name: "web", limit: 100 }).length;
  expect(await planOperations(harness)).toEqual([
    "switchRoute: every replica of the version is healthy",
  ]);
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
  expect(harness.store.events.list({ kind: "App", name: "web", limit: 100 })).toHaveLength(events);
});

test("a dry run shows a pull of an image that the engine already has if the pull policy is Always", async () => {
  await using harness = new ControlPlaneHarness().boot();
  const operations = await planOperations(harness, { image: "web:1", pullPolicy: "Always" });
  expect(operations[0]).toBe("pullImage: the registry decides which image the reference means");
  expect(operations.map((line) => line.split(":")[0])).toEqual([
    "pullImage",
    "ensureNetwork",
    "createContainer",
    "startContainer",
    "probeContainer",
  ]);
});

test("a dry run of a new version shows its probe, the switch, and the end of the previous one", async () => {
  const images = { "web:1": {}, "web:2": {} };
  await using harness = new ControlPlaneHarness({ ingress: "fake", images }).boot();
  harness.apply("web", { image: "web:1", port: 80 });
  await harness.waitUntilReady("web");
  const operations = await planOperations(harness, { image: "web:2", port: 80 });
  const types = operations.map((line) => line.split(":")[0]);
  expect(types.slice(types.indexOf("createContainer"))).toEqual([
    "createContainer",
    "startContainer",
    "probeContainer",
    "switchRoute",
    "drainContainer",
    "removeContainer",
  ]);
});
