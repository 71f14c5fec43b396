import { expect, test } from "vitest";
import { buildDesiredApp } from "../../../../src/controller/apps/desired-app.ts";
import { planApp } from "../../../../src/controller/apps/plan/plan-app.ts";
import type {
  ContainerHealth,
  ObservedApp,
} from "../../../../src/controller/apps/plan/plan-types.ts";
import { noIngress } from "../../../../src/controller/ingress/no-ingress.ts";
import type { Ingress } from "../../../../src/controller/ingress/port.ts";
import type { ObservedContainer } from "../../../../src/controller/runtime/port.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { DEPLOYED_AT_ANNOTATION } from "../../../../src/resources/resource.ts";
import { appResource } from "../../../support/app-resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { describeSettings } from "../../../support/fake-settings.ts";

const images = {
  "web:1": {},
  "web:2": {},
  "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY },
  "stubborn:1": { ignoresTerm: true },
  "crash:1": { exits: { afterMs: 3_000, code: 1 } },
};
const web: AppSpec = { image: "web:1", port: 80 };
const source: AppSpec = { source: { git: { url: "https://git.example.org/web.git" } }, port: 80 };

async function serving(spec: AppSpec = web): Promise<ControlPlaneHarness> {
  const harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  return harness;
}

test("a failed app leaves no route to an address that another app gets later", async () => {
  await using harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  harness.apply("web", { image: "crash:1", port: 80, restart: { attempts: 2, backoff: "1s" } });
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  expect(harness.listContainers("web").map(({ state }) => state)).toEqual(["exited"]);
  expect(harness.routes?.routes.get("web")?.targets ?? []).toEqual([]);
});

test("requests to a stalled app never reach a container of another app", async () => {
  await using harness = await serving();
  harness.apply("web", { ...web, image: "sick:1", rollout: { autoRevert: false } });
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  const old = harness.listContainers("web").find(({ spec }) => spec.image === "web:1");
  harness.engine.kill(old?.id ?? "", 1);
  await harness.clock.advance(5_000);
  harness.engine.reuseAddresses();
  harness.apply("alpha", { image: "web:2", port: 80 });
  await harness.waitUntilReady("alpha");
  expect(harness.listServedImages("web")).not.toContain("web:2");
});

test("the old version of a stalled app keeps serving requests", async () => {
  await using harness = await serving();
  harness.apply("web", { ...web, image: "sick:1", rollout: { autoRevert: false } });
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
  const old = harness.listContainers("web").find(({ spec }) => spec.image === "web:1");
  harness.engine.kill(old?.id ?? "", 1);
  await harness.clock.advance(120_000);
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
});

test("requests to a suspended app never reach a container of another app", async () => {
  await using harness = await serving();
  harness.apply("web", { ...web, suspend: true });
  await harness.clock.advance(1_000);
  harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 1);
  await harness.clock.advance(5_000);
  harness.engine.reuseAddresses();
  harness.apply("alpha", { image: "web:2", port: 80 });
  await harness.waitUntilReady("alpha");
  expect(harness.listServedImages("web")).not.toContain("web:2");
});

test("an app whose port is removed has no route", async () => {
  await using harness = await serving();
  harness.apply("web", { image: "web:1" });
  await harness.clock.advance(60_000);
  expect(harness.routes?.routes.get("web")?.targets ?? []).toEqual([]);
});

const failure = { reason: "BuildFailed", message: "RUN make failed", terminal: true };

test("a commit that is pushed after a failed first build is built", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.builds.scripts.set("commit1", { failure });
  harness.apply("web", source);
  await harness.waitForPhase("web", "failed");
  harness.builds.head = "commit2";
  harness.manager.apps.enqueue("web");
  await harness.waitUntilReady("web");
  expect(harness.isReady("web")).toBe(true);
});

test("a commit that is pushed after a failed build without autoRevert is built", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", { ...source, rollout: { autoRevert: false } });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.builds.scripts.set("bad", { failure });
  harness.builds.head = "bad";
  harness.manager.apps.enqueue("web");
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    60_000,
    "it stalls",
  );
  harness.builds.head = "commit3";
  harness.manager.apps.enqueue("web");
  await harness.waitUntilReady("web");
  expect(harness.isReady("web")).toBe(true);
});

test("a deploy after a failed first build starts another build", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.builds.scripts.set("commit1", { failure });
  harness.apply("web", source);
  await harness.waitForPhase("web", "failed");
  harness.builds.head = "commit2";
  harness.annotate("web", { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  await harness.waitUntilReady("web");
  expect(harness.isReady("web")).toBe(true);
});

test("a second deploy shortly after the first does not revert to the version before both deploys", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", source);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.builds.head = "commit2";
  harness.manager.apps.enqueue("web");
  await harness.clock.until(
    () => harness.listServedImages("web")[0] === harness.builds.getImage("web", "commit2"),
    60_000,
    "commit2 serves",
  );
  await harness.waitUntilReady("web");
  await harness.clock.advance(3_000);
  harness.builds.head = { type: "resolving", message: "looks at main" };
  harness.annotate("web", { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  const seen = new Set<string>();
  await harness.clock
    .until(
      () => {
        for (const image of harness.listServedImages("web")) seen.add(image);
        return false;
      },
      10_000,
      "time passes",
    )
    .catch(() => {});
  expect([...seen]).toEqual([harness.builds.getImage("web", "commit2")]);
});

test("a surplus replica drains before it is stopped", async () => {
  await using harness = await serving({ ...web, replicas: 2, rollout: { drain: "30s" } });
  harness.apply("web", { ...web, replicas: 1, rollout: { drain: "30s" } });
  await harness.clock.until(
    () => harness.listServedImages("web").length === 1,
    5_000,
    "one serves",
  );
  await harness.clock.advance(1_000);
  expect(harness.listContainers("web").filter(({ state }) => state === "running")).toHaveLength(2);
});

test("while the port changes, the version that serves requests counts as available", async () => {
  await using harness = new ControlPlaneHarness({
    images: { ...images, "old:1": { listensOn: [80] } },
    ingress: "fake",
  }).boot();
  harness.apply("web", { image: "old:1", port: 80 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { image: "sick:1", port: 81 });
  await harness.clock.advance(20_000);
  expect(harness.listServedImages("web")).toEqual(["old:1"]);
  expect(harness.condition("web", "Available")?.status).toBe("True");
});

const NOW = Date.parse("2030-01-01T00:00:00Z");
const withIngress: Pick<Ingress, "mode" | "reachability"> = {
  mode: "process",
  reachability: "address",
};

function desiredOf(spec: AppSpec, ingress: Pick<Ingress, "mode" | "reachability"> = withIngress) {
  return buildDesiredApp({
    instance: "0123abcd",
    resource: appResource("web", spec),
    spec,
    image: { reference: spec.image ?? "web:1", id: "sha256:1", digest: null },
    revealSecret: () => "",
    ingress,
    loopbackPort: (replica) => 20_000 + replica,
  });
}

function containerOf(
  desired: ReturnType<typeof desiredOf>,
  id: string,
  address: string,
  patch: Partial<ObservedContainer> = {},
): ObservedContainer {
  const spec = desired.containers[0];
  if (!spec) throw new Error("no replica");
  return {
    id,
    name: spec.name,
    labels: spec.labels,
    image: spec.image,
    imageId: "sha256:1",
    state: "running",
    exitCode: null,
    oomKilled: false,
    isPortTaken: false,
    error: null,
    createdAt: new Date(NOW - 86_400_000).toISOString(),
    startedAt: new Date(NOW - 86_400_000).toISOString(),
    finishedAt: null,
    networks: [desired.network],
    networkAddresses: { [desired.network]: address },
    reservedAddress: null,
    memoryBytes: null,
    nanoCpus: null,
    addresses: [],
    settings: describeSettings(spec),
    ...patch,
  };
}

function observedOf(
  containers: readonly ObservedContainer[],
  patch: Partial<ObservedApp> = {},
): ObservedApp {
  return {
    nowMs: NOW,
    isCompleted: false,
    completed: [],
    containers,
    health: new Map<string, ContainerHealth>(),
    route: null,
    served: [],
    firstSeen: { healthySince: new Map(), idleSince: new Map() },
    window: null,
    connections: new Map(),
    stopping: new Set(),
    isStalled: false,
    isProven: false,
    image: "present",
    restarts: [],
    isFresh: false,
    drifts: [],
    stableReplicas: 0,
    blockedBy: null,
    ...patch,
  };
}

const ok: ContainerHealth = { healthy: true, restartDue: false, message: "200" };

test("requests switch to the new version even if the engine's clock is ahead", () => {
  const v1 = desiredOf(web);
  const v2 = desiredOf({ ...web, image: "web:2" });
  const plan = planApp(
    v2,
    observedOf(
      [
        containerOf(v1, "old", "10.0.0.2"),
        containerOf(v2, "new", "10.0.0.3", {
          createdAt: new Date(NOW + 3_600_000).toISOString(),
          startedAt: new Date(NOW + 3_600_000).toISOString(),
        }),
      ],
      {
        health: new Map([["new", ok]]),
        route: { version: v1.hash, targets: ["10.0.0.2:80"], sinceMs: NOW - 86_000_000 },
      },
    ),
  );
  const waitsMs = (plan.requeueAtMs ?? NOW) - NOW;
  expect(waitsMs).toBeLessThan(60_000);
});

test("the old version drains even if the engine's clock is ahead", () => {
  const v1 = desiredOf(web);
  const v2 = desiredOf({ ...web, image: "web:2" });
  const ahead = (ms: number) => new Date(NOW + ms).toISOString();
  const plan = planApp(
    v2,
    observedOf(
      [
        // The container was created ten minutes ago, by a clock that is an hour ahead.
        containerOf(v1, "old", "10.0.0.2", { createdAt: ahead(3_000_000) }),
        containerOf(v2, "new", "10.0.0.3", { createdAt: ahead(3_600_000) }),
      ],
      {
        health: new Map([["new", ok]]),
        route: { version: v2.hash, targets: ["10.0.0.3:80"], sinceMs: NOW - 10 },
        served: [v1.hash, v2.hash],
      },
    ),
  );
  expect(plan.operations).toEqual([]);
});

test("after the ingress was off, published containers serve requests until the new containers are healthy", () => {
  const published = desiredOf(web, noIngress);
  const v1 = desiredOf(web);
  const container = containerOf(published, "published", "10.0.0.2");
  // The route table on the disk is from the time when the ingress was last on.
  const stale = { version: v1.hash, targets: ["10.0.0.7:80"], sinceMs: NOW - 86_400_000 };
  const waiting = planApp(v1, observedOf([container], { route: stale, blockedBy: "waits for db" }));
  expect(waiting.operations.filter(({ type }) => type === "stopContainer")).toEqual([]);
});

test("a worker without a port keeps running until the version with a port is healthy", async () => {
  await using harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  harness.apply("web", { image: "web:1" });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { image: "sick:1", port: 80 });
  await harness.clock.advance(5_000);
  expect(
    harness
      .listContainers("web")
      .find(({ spec, state }) => spec.image === "web:1" && state === "running"),
  ).toBeDefined();
});

test("the new version is reconciled while an old version takes long to stop", async () => {
  const spec: AppSpec = { ...web, stopGracePeriod: "1m", rollout: { drain: "1s" } };
  await using harness = await serving({ ...spec, image: "stubborn:1" });
  harness.apply("web", { ...spec, image: "web:2" });
  await harness.waitUntilReady("web");
  await harness.clock.advance(5_000);
  const next = harness.listContainers("web").find(({ spec: { image } }) => image === "web:2");
  expect(harness.listContainers("web").filter(({ state }) => state === "running")).toHaveLength(2);
  harness.engine.kill(next?.id ?? "", 1);
  await harness.clock.advance(10_000);
  expect(harness.listServedImages("web")).toEqual(["web:2"]);
});

test("a bad version that is deployed soon after a good version leaves the good version running", async () => {
  await using harness = await serving();
  harness.apply("web", { ...web, image: "web:2" });
  await harness.waitUntilReady("web");
  await harness.clock.advance(5_000);
  harness.apply("web", { ...web, image: "sick:1" });
  const seen = new Set<string>();
  await harness.clock.until(
    () => {
      for (const image of harness.listServedImages("web")) seen.add(image);
      return harness.condition("web", "Ready")?.reason === "Reverted";
    },
    300_000,
    "it was reverted",
  );
  await harness.clock.advance(60_000);
  expect(harness.listServedImages("web")).toEqual(["web:2"]);
});

test("a stalled app with one healthy replica routes no request to the dead replica", async () => {
  await using harness = await serving({
    ...web,
    replicas: 2,
    restart: { attempts: 1, backoff: "60s" },
  });
  const id = harness.listContainers("web")[0]?.id ?? "";
  for (let turn = 0; turn < 2; turn += 1) {
    harness.engine.kill(id, 1);
    await harness.clock.advance(5_000);
  }
  expect(harness.condition("web", "Stalled")?.status).toBe("True");
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
});

test("an old version of a stalled app is stopped after it has drained", async () => {
  const spec: AppSpec = { ...web, rollout: { drain: "30s", autoRevert: false } };
  await using harness = await serving(spec);
  harness.apply("web", { ...spec, image: "web:2", restart: { attempts: 1, backoff: "1s" } });
  await harness.waitUntilReady("web");
  const id = harness.listContainers("web").find((it) => it.spec.image === "web:2")?.id ?? "";
  for (let turn = 0; turn < 3; turn += 1) {
    harness.engine.kill(id, 1);
    await harness.clock.advance(4_000);
  }
  expect(harness.condition("web", "Stalled")?.status).toBe("True");
  await harness.clock.advance(120_000);
  expect(harness.listContainers("web").filter((it) => it.spec.image === "web:1")).toEqual([]);
});

test("a version whose containers have no address yet gets no requests", () => {
  const v1 = desiredOf(web);
  const v2 = desiredOf({ ...web, image: "web:2" });
  const plan = planApp(
    v2,
    observedOf(
      [
        containerOf(v1, "old", "10.0.0.2"),
        containerOf(v2, "new", "10.0.0.3", { networkAddresses: {} }),
      ],
      {
        health: new Map([["new", ok]]),
        route: { version: v1.hash, targets: ["10.0.0.2:80"], sinceMs: NOW - 86_000_000 },
      },
    ),
  );
  expect(plan.operations).toEqual([]);
});

test("a version with an unhealthy replica gets no requests while the old version is restarted", async () => {
  await using harness = await serving({ ...web, replicas: 1 });
  harness.apply("web", { ...web, image: "web:2", replicas: 2 });
  await harness.clock.until(
    () => harness.listContainers("web").filter(({ state }) => state === "running").length === 3,
    10_000,
    "all run",
  );
  const [bad] = harness.listContainers("web").filter(({ spec }) => spec.image === "web:2");
  harness.engine.makeUnhealthy(bad?.id ?? "");
  await harness.clock.advance(3_000);
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
  const old = harness.listContainers("web").find(({ spec }) => spec.image === "web:1");
  const seen = new Set<string>();
  harness.engine.kill(old?.id ?? "", 1);
  await harness.clock
    .until(
      () => {
        for (const image of harness.listServedImages("web")) seen.add(image);
        return false;
      },
      20_000,
      "time passes",
    )
    .catch(() => {});
  expect([...seen]).not.toContain("web:2");
});

test("the status shows a healthy version as serving, even if the app is stalled", async () => {
  await using harness = new ControlPlaneHarness({
    images: { ...images, "old:1": { listensOn: [80] } },
    ingress: "fake",
  }).boot();
  harness.apply("web", { image: "old:1", port: 80 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { image: "sick:1", port: 81, rollout: { autoRevert: false } });
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  expect(harness.listServedImages("web")).toEqual(["old:1"]);
  expect(harness.app("web")?.status?.phase).toBe("degraded");
});

test("if a failed version runs next to a version that serves requests, the serving one serves again after a restart of the engine", async () => {
  await using harness = await serving();
  harness.apply("web", { ...web, image: "sick:1", rollout: { autoRevert: false } });
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  await harness.kill();
  harness.engine.restart();
  harness.boot();
  await harness.clock.advance(120_000);
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
});

test("after a failed build without autoRevert, the version that serves requests is still supervised", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", { ...source, rollout: { autoRevert: false } });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.builds.scripts.set("bad", { failure });
  harness.builds.head = "bad";
  harness.manager.apps.enqueue("web");
  await harness.clock.until(
    () => harness.condition("web", "Stalled")?.status === "True",
    60_000,
    "it stalls",
  );
  harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 1);
  await harness.clock.advance(60_000);
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
});

test("a stop during a build, followed by a start, runs the previous version again", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", source);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.builds.scripts.set("commit2", { afterMs: 120_000 });
  harness.builds.head = "commit2";
  harness.manager.apps.enqueue("web");
  await harness.clock.advance(2_000);
  harness.apply("web", { ...source, running: false });
  await harness.waitForPhase("web", "stopped");
  harness.apply("web", { ...source, running: true });
  await harness.clock.advance(10_000);
  expect(harness.listServedImages("web")).toEqual([harness.builds.getImage("web", "commit1")]);
});
