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
  const world = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  world.apply("web", spec);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  return world;
}

function annotate(world: ControlPlaneHarness, annotations: Record<string, string | null>): void {
  world.store.apply({
    kind: "App",
    name: "web",
    manager: "api",
    actor: { name: "test" },
    mode: "merge",
    spec: {},
    annotations,
  });
}

test("an app that was given up leaves no route to an address that another app gets", async () => {
  await using world = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  world.apply("web", { image: "crash:1", port: 80, restart: { attempts: 2, backoff: "1s" } });
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  expect(world.listContainers("web").map(({ state }) => state)).toEqual(["exited"]);
  expect(world.routes?.routes.get("web")?.targets ?? []).toEqual([]);
});

test("a stalled app's requests never reach the container of another", async () => {
  await using world = await serving();
  world.apply("web", { ...web, image: "sick:1", rollout: { autoRevert: false } });
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  const old = world.listContainers("web").find(({ spec }) => spec.image === "web:1");
  world.engine.kill(old?.id ?? "", 1);
  await world.clock.advance(5_000);
  world.engine.reuseAddresses();
  world.apply("alpha", { image: "web:2", port: 80 });
  await world.waitUntilReady("alpha");
  expect(world.listServedImages("web")).not.toContain("web:2");
});

test("a stalled app's old version, which serves, is kept up", async () => {
  await using world = await serving();
  world.apply("web", { ...web, image: "sick:1", rollout: { autoRevert: false } });
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  expect(world.listServedImages("web")).toEqual(["web:1"]);
  const old = world.listContainers("web").find(({ spec }) => spec.image === "web:1");
  world.engine.kill(old?.id ?? "", 1);
  await world.clock.advance(120_000);
  expect(world.listServedImages("web")).toEqual(["web:1"]);
});

test("a suspended app's requests never reach the container of another", async () => {
  await using world = await serving();
  world.apply("web", { ...web, suspend: true });
  await world.clock.advance(1_000);
  world.engine.kill(world.listContainers("web")[0]?.id ?? "", 1);
  await world.clock.advance(5_000);
  world.engine.reuseAddresses();
  world.apply("alpha", { image: "web:2", port: 80 });
  await world.waitUntilReady("alpha");
  expect(world.listServedImages("web")).not.toContain("web:2");
});

test("an app that loses its port has no route any more", async () => {
  await using world = await serving();
  world.apply("web", { image: "web:1" });
  await world.clock.advance(60_000);
  expect(world.routes?.routes.get("web")?.targets ?? []).toEqual([]);
});

const failure = { reason: "BuildFailed", message: "RUN make failed", terminal: true };

test("a push after a failed first build is built", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.builds.scripts.set("commit1", { failure });
  world.apply("web", source);
  await world.waitForPhase("web", "failed");
  world.builds.head = "commit2";
  world.manager.apps.enqueue("web");
  await world.waitUntilReady("web");
  expect(world.isReady("web")).toBe(true);
});

test("a push after a failed build without autoRevert is built", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", { ...source, rollout: { autoRevert: false } });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.builds.scripts.set("bad", { failure });
  world.builds.head = "bad";
  world.manager.apps.enqueue("web");
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    60_000,
    "it stalls",
  );
  world.builds.head = "commit3";
  world.manager.apps.enqueue("web");
  await world.waitUntilReady("web");
  expect(world.isReady("web")).toBe(true);
});

test("a deploy after a failed first build is built", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.builds.scripts.set("commit1", { failure });
  world.apply("web", source);
  await world.waitForPhase("web", "failed");
  world.builds.head = "commit2";
  annotate(world, { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  await world.waitUntilReady("web");
  expect(world.isReady("web")).toBe(true);
});

test("a deploy shortly after another does not go back to the version before both", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", source);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.builds.head = "commit2";
  world.manager.apps.enqueue("web");
  await world.clock.until(
    () => world.listServedImages("web")[0] === world.builds.getImage("web", "commit2"),
    60_000,
    "commit2 serves",
  );
  await world.waitUntilReady("web");
  await world.clock.advance(3_000);
  world.builds.head = { type: "resolving", message: "resolving main" };
  annotate(world, { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
  const seen = new Set<string>();
  await world.clock
    .until(
      () => {
        for (const image of world.listServedImages("web")) seen.add(image);
        return false;
      },
      10_000,
      "time passes",
    )
    .catch(() => {});
  expect([...seen]).toEqual([world.builds.getImage("web", "commit2")]);
});

test("a replica that is one too many has time to end its requests", async () => {
  await using world = await serving({ ...web, replicas: 2, rollout: { drain: "30s" } });
  world.apply("web", { ...web, replicas: 1, rollout: { drain: "30s" } });
  await world.clock.until(() => world.listServedImages("web").length === 1, 5_000, "one serves");
  await world.clock.advance(1_000);
  expect(world.listContainers("web").filter(({ state }) => state === "running")).toHaveLength(2);
});

test("while the port changes, what serves counts as available", async () => {
  await using world = new ControlPlaneHarness({
    images: { ...images, "old:1": { listensOn: [80] } },
    ingress: "fake",
  }).boot();
  world.apply("web", { image: "old:1", port: 80 });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", { image: "sick:1", port: 81 });
  await world.clock.advance(20_000);
  expect(world.listServedImages("web")).toEqual(["old:1"]);
  expect(world.condition("web", "Available")?.status).toBe("True");
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
    image: spec.image ?? "web:1",
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
    error: null,
    createdAt: new Date(NOW - 86_400_000).toISOString(),
    startedAt: new Date(NOW - 86_400_000).toISOString(),
    finishedAt: null,
    networks: [desired.network],
    networkAddresses: { [desired.network]: address },
    memoryBytes: null,
    nanoCpus: null,
    addresses: [],
    ...patch,
  };
}

function observedOf(
  containers: readonly ObservedContainer[],
  patch: Partial<ObservedApp> = {},
): ObservedApp {
  return {
    nowMs: NOW,
    containers,
    health: new Map<string, ContainerHealth>(),
    route: null,
    served: [],
    firstSeen: { upSince: new Map(), idleSince: new Map() },
    stopping: new Set(),
    isStalled: false,
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

test("a candidate takes over also where the engine's clock is ahead", () => {
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

test("what served drains also where the engine's clock is ahead", () => {
  const v1 = desiredOf(web);
  const v2 = desiredOf({ ...web, image: "web:2" });
  const ahead = (ms: number) => new Date(NOW + ms).toISOString();
  const plan = planApp(
    v2,
    observedOf(
      [
        // Made ten minutes ago, by a clock that is an hour ahead.
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

test("process, off, process: what is published serves until the new containers are up", () => {
  const published = desiredOf(web, noIngress);
  const v1 = desiredOf(web);
  const container = containerOf(published, "published", "10.0.0.2");
  // The table on the disk is what it was when the ingress was last there.
  const stale = { version: v1.hash, targets: ["10.0.0.7:80"], sinceMs: NOW - 86_400_000 };
  const waiting = planApp(v1, observedOf([container], { route: stale, blockedBy: "waits for db" }));
  expect(waiting.operations.filter(({ type }) => type === "stopContainer")).toEqual([]);
});

test("a worker is kept up until the version with a port is healthy", async () => {
  await using world = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  world.apply("web", { image: "web:1" });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", { image: "sick:1", port: 80 });
  await world.clock.advance(5_000);
  expect(
    world
      .listContainers("web")
      .find(({ spec, state }) => spec.image === "web:1" && state === "running"),
  ).toBeDefined();
});

test("while an old version takes its time to end, the new one is looked after", async () => {
  const spec: AppSpec = { ...web, stopGracePeriod: "1m", rollout: { drain: "1s" } };
  await using world = await serving({ ...spec, image: "stubborn:1" });
  world.apply("web", { ...spec, image: "web:2" });
  await world.waitUntilReady("web");
  await world.clock.advance(5_000);
  const next = world.listContainers("web").find(({ spec: { image } }) => image === "web:2");
  expect(world.listContainers("web").filter(({ state }) => state === "running")).toHaveLength(2);
  world.engine.kill(next?.id ?? "", 1);
  await world.clock.advance(10_000);
  expect(world.listServedImages("web")).toEqual(["web:2"]);
});

test("a bad version that follows soon after a good one leaves the good one where it is", async () => {
  await using world = await serving();
  world.apply("web", { ...web, image: "web:2" });
  await world.waitUntilReady("web");
  await world.clock.advance(5_000);
  world.apply("web", { ...web, image: "sick:1" });
  const seen = new Set<string>();
  await world.clock.until(
    () => {
      for (const image of world.listServedImages("web")) seen.add(image);
      return world.condition("web", "Ready")?.reason === "Reverted";
    },
    300_000,
    "it was reverted",
  );
  await world.clock.advance(60_000);
  expect(world.listServedImages("web")).toEqual(["web:2"]);
});

test("a stalled app with one healthy replica sends no request to the dead one", async () => {
  await using world = await serving({
    ...web,
    replicas: 2,
    restart: { attempts: 1, backoff: "1s" },
  });
  const id = world.listContainers("web")[0]?.id ?? "";
  for (let turn = 0; turn < 3; turn += 1) {
    world.engine.kill(id, 1);
    await world.clock.advance(5_000);
  }
  expect(world.condition("web", "Stalled")?.status).toBe("True");
  expect(world.listServedImages("web")).toEqual(["web:1"]);
});

test("a stalled app's version that was overtaken is stopped when it has drained", async () => {
  const spec: AppSpec = { ...web, rollout: { drain: "30s", autoRevert: false } };
  await using world = await serving(spec);
  world.apply("web", { ...spec, image: "web:2", restart: { attempts: 1, backoff: "1s" } });
  await world.waitUntilReady("web");
  const id = world.listContainers("web").find((it) => it.spec.image === "web:2")?.id ?? "";
  for (let turn = 0; turn < 3; turn += 1) {
    world.engine.kill(id, 1);
    await world.clock.advance(4_000);
  }
  expect(world.condition("web", "Stalled")?.status).toBe("True");
  await world.clock.advance(120_000);
  expect(world.listContainers("web").filter((it) => it.spec.image === "web:1")).toEqual([]);
});

test("a version whose containers have no address yet does not take the requests", () => {
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

test("a version of which one replica is not healthy gets no request while the old one is started again", async () => {
  await using world = await serving({ ...web, replicas: 1 });
  world.apply("web", { ...web, image: "web:2", replicas: 2 });
  await world.clock.until(
    () => world.listContainers("web").filter(({ state }) => state === "running").length === 3,
    10_000,
    "all run",
  );
  const [bad] = world.listContainers("web").filter(({ spec }) => spec.image === "web:2");
  world.engine.makeUnhealthy(bad?.id ?? "");
  await world.clock.advance(3_000);
  expect(world.listServedImages("web")).toEqual(["web:1"]);
  const old = world.listContainers("web").find(({ spec }) => spec.image === "web:1");
  const seen = new Set<string>();
  world.engine.kill(old?.id ?? "", 1);
  await world.clock
    .until(
      () => {
        for (const image of world.listServedImages("web")) seen.add(image);
        return false;
      },
      20_000,
      "time passes",
    )
    .catch(() => {});
  expect([...seen]).not.toContain("web:2");
});

test("a version that is healthy, and stalled app or not, is what the status says serves", async () => {
  await using world = new ControlPlaneHarness({
    images: { ...images, "old:1": { listensOn: [80] } },
    ingress: "fake",
  }).boot();
  world.apply("web", { image: "old:1", port: 80 });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", { image: "sick:1", port: 81, rollout: { autoRevert: false } });
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  expect(world.listServedImages("web")).toEqual(["old:1"]);
  expect(world.app("web")?.status?.phase).toBe("degraded");
});

test("a restart of the engine brings back what served beside a version that was given up", async () => {
  await using world = await serving();
  world.apply("web", { ...web, image: "sick:1", rollout: { autoRevert: false } });
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    300_000,
    "it stalls",
  );
  await world.kill();
  world.engine.restart();
  world.boot();
  await world.clock.advance(120_000);
  expect(world.listServedImages("web")).toEqual(["web:1"]);
});

test("a failed build without autoRevert leaves what serves looked after", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", { ...source, rollout: { autoRevert: false } });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.builds.scripts.set("bad", { failure });
  world.builds.head = "bad";
  world.manager.apps.enqueue("web");
  await world.clock.until(
    () => world.condition("web", "Stalled")?.status === "True",
    60_000,
    "it stalls",
  );
  world.engine.kill(world.listContainers("web")[0]?.id ?? "", 1);
  await world.clock.advance(60_000);
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
});

test("a stop in the middle of a build, and a start, bring back what ran", async () => {
  await using world = new ControlPlaneHarness({ ingress: "fake" }).boot();
  world.apply("web", source);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.builds.scripts.set("commit2", { afterMs: 120_000 });
  world.builds.head = "commit2";
  world.manager.apps.enqueue("web");
  await world.clock.advance(2_000);
  world.apply("web", { ...source, running: false });
  await world.waitForPhase("web", "stopped");
  world.apply("web", { ...source, running: true });
  await world.clock.advance(10_000);
  expect(world.listServedImages("web")).toEqual([world.builds.getImage("web", "commit1")]);
});
