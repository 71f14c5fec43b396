import { describe, expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const images = {
  "web:1": {},
  "web:2": {},
  "web:3": {},
  "slow:1": { readyAfterMs: 8_000, healthyAfterMs: 8_000 },
  "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY },
};
const web: AppSpec = { image: "web:1", port: 80, replicas: 2 };

async function serving(spec: AppSpec = web): Promise<ControlPlaneHarness> {
  const world = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  world.apply("web", spec);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  return world;
}

const runningImages = (world: ControlPlaneHarness) =>
  world
    .listContainers("web")
    .filter(({ state }) => state === "running")
    .map(({ spec }) => spec.image)
    .toSorted();

test("containers behind an ingress publish no ports, and the domain reaches them", async () => {
  await using world = await serving();
  expect(world.listContainers("web").flatMap(({ published }) => published)).toEqual([]);
  expect(world.app("web")?.status?.url).toBe("http://web.localhost");
  expect(world.condition("web", "Routed")).toMatchObject({ status: "True", reason: "Routed" });
  expect(world.condition("web", "Progressing")?.message).toContain("rolling");
});

test("the new version is Ready when it gets the requests, and the old one drains", async () => {
  await using world = await serving({ ...web, rollout: { drain: "30s" } });
  world.apply("web", { ...web, image: "web:2", rollout: { drain: "30s" } });
  await world.waitUntilReady("web");
  expect(world.listServedImages("web")).toEqual(["web:2", "web:2"]);
  expect(runningImages(world)).toEqual(["web:1", "web:1", "web:2", "web:2"]);
  expect(
    world
      .app("web")
      ?.status?.containers.map(({ role }) => role)
      .toSorted(),
  ).toEqual(["active", "active", "draining", "draining"]);
  await world.clock.advance(25_000);
  expect(runningImages(world)).toHaveLength(4);
  await world.clock.advance(10_000);
  expect(runningImages(world)).toEqual(["web:2", "web:2"]);
});

test("a version that is never healthy gets no request, and the old one keeps running", async () => {
  await using world = await serving();
  const before = world.listContainers("web").map(({ id }) => id);
  world.apply("web", { ...web, image: "sick:1" });
  await world.clock.until(
    () => {
      expect(world.listServedImages("web")).toEqual(["web:1", "web:1"]);
      return world.condition("web", "Ready")?.reason === "Reverted";
    },
    300_000,
    "it was reverted",
  );
  await world.clock.advance(60_000);
  expect(world.listContainers("web").map(({ id }) => id)).toEqual(before);
});

test("of several changes during one rollout only the last one gets the requests", async () => {
  await using world = await serving();
  const seen = new Set<string>();
  for (const image of ["slow:1", "web:2", "slow:1", "sick:1", "web:3"]) {
    world.apply("web", { ...web, image });
    await world.clock.advance(200);
    for (const served of world.listServedImages("web")) seen.add(served);
  }
  await world.clock.until(
    () => {
      for (const served of world.listServedImages("web")) seen.add(served);
      return world.isReady("web");
    },
    60_000,
    "the last one is Ready",
  );
  expect([...seen]).toEqual(["web:1", "web:3"]);
  await world.clock.advance(60_000);
  expect(runningImages(world)).toEqual(["web:3", "web:3"]);
});

test("a rollback while the old version still drains uses its containers again", async () => {
  await using world = await serving({ ...web, rollout: { drain: "1m" } });
  const before = world.listContainers("web").map(({ id }) => id);
  world.apply("web", { ...web, image: "web:2", rollout: { drain: "1m" } });
  await world.waitUntilReady("web");
  world.apply("web", { ...web, rollout: { drain: "1m" } });
  await world.waitUntilReady("web");
  expect(world.listServedImages("web")).toEqual(["web:1", "web:1"]);
  await world.clock.advance(120_000);
  expect(world.listContainers("web").map(({ id }) => id)).toEqual(before);
});

test("a container that dies gets no requests until it runs again", async () => {
  await using world = await serving();
  const [first] = world.listContainers("web");
  world.engine.kill(first?.id ?? "", 1);
  await world.clock.until(() => world.listServedImages("web").length === 1, 1_000, "one is left");
  await world.clock.until(() => world.listServedImages("web").length === 2, 60_000, "both serve");
  expect(world.listServedImages("web")).toEqual(["web:1", "web:1"]);
});

test("the old version keeps running during a rollout, even if it crashes", async () => {
  await using world = await serving({ ...web, replicas: 1 });
  world.apply("web", { ...web, replicas: 1, image: "slow:1" });
  await world.clock.advance(1_000);
  const old = world.listContainers("web").find(({ spec }) => spec.image === "web:1");
  world.engine.kill(old?.id ?? "", 1);
  await world.clock.until(
    () => world.listServedImages("web")[0] === "web:1",
    5_000,
    "it is up again",
  );
  await world.waitUntilReady("web");
  expect(world.listServedImages("web")).toEqual(["slow:1"]);
});

test("a stopped app gets no requests; after a start the same containers get them", async () => {
  await using world = await serving();
  const before = world.listContainers("web").map(({ id }) => id);
  world.apply("web", { ...web, running: false });
  await world.waitForPhase("web", "stopped");
  expect(world.listServedImages("web")).toEqual([]);
  world.apply("web", web);
  await world.waitUntilReady("web");
  expect(world.listContainers("web").map(({ id }) => id)).toEqual(before);
  expect(world.listServedImages("web")).toEqual(["web:1", "web:1"]);
});

test("a deleted app has no route", async () => {
  await using world = await serving();
  world.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await world.clock.until(() => !world.app("web"), 60_000, "it is gone");
  expect(world.routes?.routes.has("web")).toBe(false);
});

test("a start of Berth does not change the route of a healthy app", async () => {
  await using world = await serving();
  let changes = 0;
  if (world.routes) world.routes.faults = { before: () => void (changes += 1) };
  await world.kill();
  await world.clock.advance(60_000);
  world.boot();
  await world.waitUntilReady("web");
  await world.clock.advance(60_000);
  expect(changes).toBe(0);
});

describe("an app with a resource that two versions cannot share is recreated, and the plan says why", () => {
  test.each<[string, AppSpec, string]>([
    ["a volume", { ...web, volumes: [{ name: "data", path: "/data" }] }, 'volume "data"'],
    ["a folder", { ...web, volumes: [{ hostPath: "/srv/web", path: "/data" }] }, "/srv/web"],
    ["a port", { ...web, replicas: 1, ports: [{ host: 5_000, container: 5_000 }] }, "port 5000"],
    ["no port", { image: "web:1" }, "same work twice"],
    ["a wish", { ...web, rollout: { strategy: "recreate" } }, "asks for recreate"],
  ])("%s", async (_, spec, why) => {
    await using world = await serving(spec);
    const report = await world.controlPlane.planApp(
      "web",
      { ...spec, image: "web:2" },
      AbortSignal.timeout(5_000),
    );
    expect(report.strategy).toBe("recreate");
    expect(report.strategyReason).toContain(why);
    expect(world.condition("web", "Progressing")?.message).toContain(why);
    world.apply("web", { ...spec, image: "web:2" });
    const versions = new Set<string>();
    await world.clock.until(
      () => {
        versions.add([...new Set(runningImages(world))].join("+"));
        return world.isReady("web");
      },
      60_000,
      "web:2 is Ready",
    );
    expect(versions.has("web:1+web:2")).toBe(false);
  });

  test("two versions can share a volume that is read-only", async () => {
    const spec = { ...web, volumes: [{ hostPath: "/srv/web", path: "/data", readOnly: true }] };
    await using world = await serving(spec);
    const report = await world.controlPlane.planApp("web", undefined, AbortSignal.timeout(5_000));
    expect(report.strategy).toBe("rolling");
  });
});

describe("an app is not Ready if it cannot be reached", () => {
  test("if another app has its domain", async () => {
    await using world = await serving();
    world.routes?.setVerdict("web", {
      served: false,
      reason: "DomainTaken",
      message: 'web.localhost belongs to app "other"',
    });
    world.manager.apps.enqueue("web");
    await world.waitForPhase("web", "degraded");
    expect(world.condition("web", "Routed")).toMatchObject({
      status: "False",
      reason: "DomainTaken",
    });
    expect(world.app("web")?.status?.url).toBeNull();
  });

  test("if the ingress is away: the condition says so, and an app that was Ready stays Ready", async () => {
    await using world = await serving();
    if (world.routes) world.routes.current = { ready: false, message: "port 80 is taken" };
    world.manager.apps.enqueue("web");
    await world.clock.until(
      () => world.condition("web", "Routed")?.reason === "IngressNotReady",
      5_000,
      "the condition says so",
    );
    expect(world.isReady("web")).toBe(true);
  });
});

test("after a restart of the machine no app gets requests of another", async () => {
  await using world = await serving();
  world.apply("alpha", { image: "web:2", port: 80 });
  await world.waitUntilReady("alpha");
  // Strictly in sequence: alpha is started before web is reconciled.
  world.workers = 1;
  const routes = world.routes?.routes ?? new Map();
  const wrong: string[] = [];
  await world.kill();
  world.engine.restart();
  // After the start, the engine assigns the same addresses again, in the order in which containers start.
  world.engine.reuseAddresses();
  world.boot({
    afterCall: (call) => {
      if (call.name !== "startContainer") return;
      for (const [app, route] of routes)
        for (const target of route.targets) {
          const [address] = target.split(":");
          const owner = world.engine
            .containers()
            .find((item) => item.state === "running" && item.address === address);
          if (owner && owner.labels["dev.berth.app"] !== app) wrong.push(`${app} at ${target}`);
        }
    },
  });
  await world.waitUntilReady("web");
  await world.waitUntilReady("alpha");
  expect(wrong).toEqual([]);
});
