import { describe, expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const images = {
  "web:1": {},
  "web:2": {},
  "web:3": {},
  "late:2": { readyAfterMs: 500, healthyAfterMs: 500 },
  "slow:1": { readyAfterMs: 8_000, healthyAfterMs: 8_000 },
  "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY },
};
const web: AppSpec = { image: "web:1", port: 80, replicas: 2 };

async function serving(spec: AppSpec = web): Promise<ControlPlaneHarness> {
  const harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  return harness;
}

const runningImages = (harness: ControlPlaneHarness) =>
  harness
    .listContainers("web")
    .filter(({ state }) => state === "running")
    .map(({ spec }) => spec.image)
    .toSorted();

test("containers behind an ingress publish no ports, and the domain reaches them", async () => {
  await using harness = await serving();
  expect(harness.listContainers("web").flatMap(({ published }) => published)).toEqual([]);
  expect(harness.app("web")?.status?.url).toBe("http://web.localhost");
  expect(harness.condition("web", "Routed")).toMatchObject({ status: "True", reason: "Routed" });
  expect(harness.condition("web", "Progressing")?.message).toContain("rolling");
});

test("requests switch to the new version when it is Ready, and the old version drains", async () => {
  await using harness = await serving({ ...web, rollout: { drain: "30s" } });
  harness.apply("web", { ...web, image: "web:2", rollout: { drain: "30s" } });
  await harness.waitUntilReady("web");
  expect(harness.listServedImages("web")).toEqual(["web:2", "web:2"]);
  expect(runningImages(harness)).toEqual(["web:1", "web:1", "web:2", "web:2"]);
  expect(
    harness
      .app("web")
      ?.status?.containers.map(({ role }) => role)
      .toSorted(),
  ).toEqual(["active", "active", "draining", "draining"]);
  await harness.clock.advance(25_000);
  expect(runningImages(harness)).toHaveLength(4);
  await harness.clock.advance(10_000);
  expect(runningImages(harness)).toEqual(["web:2", "web:2"]);
});

test("a version that is never healthy gets no request, and the old version keeps running", async () => {
  await using harness = await serving();
  const before = harness.listContainers("web").map(({ id }) => id);
  harness.apply("web", { ...web, image: "sick:1" });
  await harness.clock.until(
    () => {
      expect(harness.listServedImages("web")).toEqual(["web:1", "web:1"]);
      return harness.condition("web", "Ready")?.reason === "Reverted";
    },
    300_000,
    "it was reverted",
  );
  await harness.clock.advance(60_000);
  expect(harness.listContainers("web").map(({ id }) => id)).toEqual(before);
});

test("of several changes during one rollout, only the last version gets requests", async () => {
  await using harness = await serving();
  const seen = new Set<string>();
  for (const image of ["slow:1", "late:2", "slow:1", "sick:1", "web:3"]) {
    harness.apply("web", { ...web, image });
    await harness.clock.advance(200);
    for (const served of harness.listServedImages("web")) seen.add(served);
  }
  await harness.clock.until(
    () => {
      for (const served of harness.listServedImages("web")) seen.add(served);
      return harness.isReady("web");
    },
    60_000,
    "the last one is Ready",
  );
  expect([...seen]).toEqual(["web:1", "web:3"]);
  await harness.clock.advance(60_000);
  expect(runningImages(harness)).toEqual(["web:3", "web:3"]);
});

test("a rollback to a version that still drains reuses the containers of that version", async () => {
  await using harness = await serving({ ...web, rollout: { drain: "1m" } });
  const before = harness.listContainers("web").map(({ id }) => id);
  harness.apply("web", { ...web, image: "web:2", rollout: { drain: "1m" } });
  await harness.waitUntilReady("web");
  harness.apply("web", { ...web, rollout: { drain: "1m" } });
  await harness.waitUntilReady("web");
  expect(harness.listServedImages("web")).toEqual(["web:1", "web:1"]);
  await harness.clock.advance(120_000);
  expect(harness.listContainers("web").map(({ id }) => id)).toEqual(before);
});

test("a container that exits gets no requests until it runs again", async () => {
  await using harness = await serving();
  const [first] = harness.listContainers("web");
  harness.engine.kill(first?.id ?? "", 1);
  await harness.clock.until(
    () => harness.listServedImages("web").length === 1,
    1_000,
    "one is left",
  );
  await harness.clock.until(
    () => harness.listServedImages("web").length === 2,
    60_000,
    "both serve",
  );
  expect(harness.listServedImages("web")).toEqual(["web:1", "web:1"]);
});

test("during a rollout the old version keeps running, even if its containers crash", async () => {
  await using harness = await serving({ ...web, replicas: 1 });
  harness.apply("web", { ...web, replicas: 1, image: "slow:1" });
  await harness.clock.advance(1_000);
  const old = harness.listContainers("web").find(({ spec }) => spec.image === "web:1");
  harness.engine.kill(old?.id ?? "", 1);
  await harness.clock.until(
    () => harness.listServedImages("web")[0] === "web:1",
    5_000,
    "it is up again",
  );
  await harness.waitUntilReady("web");
  expect(harness.listServedImages("web")).toEqual(["slow:1"]);
});

test("a stopped app gets no requests; after a start, the same containers get them", async () => {
  await using harness = await serving();
  const before = harness.listContainers("web").map(({ id }) => id);
  harness.apply("web", { ...web, running: false });
  await harness.waitForPhase("web", "stopped");
  expect(harness.listServedImages("web")).toEqual([]);
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  expect(harness.listContainers("web").map(({ id }) => id)).toEqual(before);
  expect(harness.listServedImages("web")).toEqual(["web:1", "web:1"]);
});

test("a deleted app has no route", async () => {
  await using harness = await serving();
  harness.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await harness.clock.until(() => !harness.app("web"), 60_000, "it is gone");
  expect(harness.routes?.routes.has("web")).toBe(false);
});

test("a start of Berth does not change the route of a healthy app", async () => {
  await using harness = await serving();
  let changes = 0;
  if (harness.routes) harness.routes.faults = { before: () => void (changes += 1) };
  await harness.kill();
  await harness.clock.advance(60_000);
  harness.boot();
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  expect(changes).toBe(0);
});

describe("an app with a resource that two versions cannot share is recreated, and the plan states the reason", () => {
  test.each<[string, AppSpec, string]>([
    ["a volume", { ...web, volumes: [{ name: "data", path: "/data" }] }, 'volume "data"'],
    ["a folder", { ...web, volumes: [{ hostPath: "/srv/web", path: "/data" }] }, "/srv/web"],
    ["a port", { ...web, replicas: 1, ports: [{ host: 5_000, container: 5_000 }] }, "port 5000"],
    ["no port", { image: "web:1" }, "same work twice"],
    ["a request of the spec", { ...web, rollout: { strategy: "recreate" } }, "requests recreate"],
  ])("%s", async (_, spec, why) => {
    await using harness = await serving(spec);
    const report = await harness.controlPlane.planApp(
      "web",
      { ...spec, image: "web:2" },
      AbortSignal.timeout(5_000),
    );
    expect(report.strategy).toBe("recreate");
    expect(report.strategyReason).toContain(why);
    expect(harness.condition("web", "Progressing")?.message).toContain(why);
    harness.apply("web", { ...spec, image: "web:2" });
    const versions = new Set<string>();
    await harness.clock.until(
      () => {
        versions.add([...new Set(runningImages(harness))].join("+"));
        return harness.isReady("web");
      },
      60_000,
      "web:2 is Ready",
    );
    expect(versions.has("web:1+web:2")).toBe(false);
  });

  test("except for a read-only volume, which two versions can share", async () => {
    const spec = { ...web, volumes: [{ hostPath: "/srv/web", path: "/data", readOnly: true }] };
    await using harness = await serving(spec);
    const report = await harness.controlPlane.planApp("web", undefined, AbortSignal.timeout(5_000));
    expect(report.strategy).toBe("rolling");
  });
});

describe("an app that requests cannot reach", () => {
  test("is not Ready if another app has its domain", async () => {
    await using harness = await serving();
    harness.routes?.setVerdict("web", {
      served: false,
      reason: "DomainTaken",
      message: 'web.localhost belongs to app "other"',
    });
    harness.manager.apps.enqueue("web");
    await harness.waitForPhase("web", "degraded");
    expect(harness.condition("web", "Routed")).toMatchObject({
      status: "False",
      reason: "DomainTaken",
    });
    expect(harness.app("web")?.status?.url).toBeNull();
  });

  test("is not Ready while its certificate is pending, but its version becomes stable, and apps that depend on it start", async () => {
    await using harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
    const pending = { reason: "CertificatePending", message: "the certificate is being obtained" };
    harness.routes?.setVerdict("web", { served: true, https: true, pending });
    harness.apply("web", web);
    harness.apply("job", { image: "web:1", dependsOn: ["web"] });
    await harness.waitForPhase("web", "degraded");
    for (const type of ["Ready", "Routed"] as const)
      expect(harness.condition("web", type)).toMatchObject({ status: "False", ...pending });
    expect(harness.app("web")?.status?.url).toBe("https://web.localhost");
    await harness.waitUntilReady("job");
    await harness.clock.advance(15_000);
    expect(harness.store.revisions.list("web").map(({ state }) => state)).toEqual(["stable"]);
    harness.routes?.setVerdict("web", { served: true, https: true });
    harness.manager.apps.enqueue("web");
    await harness.waitUntilReady("web");
    expect(harness.condition("web", "Routed")).toMatchObject({ status: "True" });
  });

  test("stays Ready if the ingress fails, and the condition Routed reports the failure", async () => {
    await using harness = await serving();
    if (harness.routes) harness.routes.current = { ready: false, message: "port 80 is taken" };
    harness.manager.apps.enqueue("web");
    await harness.clock.until(
      () => harness.condition("web", "Routed")?.reason === "IngressNotReady",
      5_000,
      "the condition says so",
    );
    expect(harness.isReady("web")).toBe(true);
  });
});

test("after a restart of the machine, no app gets requests of another app", async () => {
  await using harness = await serving();
  harness.apply("alpha", { image: "web:2", port: 80 });
  await harness.waitUntilReady("alpha");
  // One worker reconciles in sequence: alpha is started before web is reconciled.
  harness.workers = 1;
  const routes = harness.routes?.routes ?? new Map();
  const wrong: string[] = [];
  await harness.kill();
  harness.engine.restart();
  // The restarted engine assigns its addresses again in the order in which containers start, so an app may get an
  // address that another app had before.
  harness.engine.reuseAddresses();
  harness.boot({
    afterCall: (call) => {
      if (call.name !== "startContainer") return;
      for (const [app, route] of routes)
        for (const target of route.targets) {
          const [address] = target.split(":");
          const owner = harness.engine
            .containers()
            .find((item) => item.state === "running" && item.address === address);
          if (owner && owner.labels["dev.berth.app"] !== app) wrong.push(`${app} at ${target}`);
        }
    },
  });
  await harness.waitUntilReady("web");
  await harness.waitUntilReady("alpha");
  expect(wrong).toEqual([]);
});
