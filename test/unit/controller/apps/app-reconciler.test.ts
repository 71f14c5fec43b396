import { describe, expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };

describe("an App", () => {
  test("starts, becomes Ready for its generation, and then needs no more calls of the engine", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", { ...web, replicas: 2 });
    await world.waitUntilReady("web");
    expect(world.listContainers("web").map((container) => container.state)).toEqual([
      "running",
      "running",
    ]);
    await world.clock.advance(15_000);
    expect(world.app("web")?.status).toMatchObject({
      phase: "running",
      observedGeneration: 1,
      revisions: { attempted: 1, applied: 1, stable: 1 },
    });
    expect(world.app("web")?.status?.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    await world.clock.advance(5_000);
    world.runtime.resetCalls();
    await world.clock.advance(10 * 60_000);
    expect(world.runtime.calls.writes).toBe(0);
  });

  test("an identical re-apply calls nothing; a new image replaces the container", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    await world.clock.advance(1_000);
    world.runtime.resetCalls();
    world.apply("web", web);
    await world.clock.advance(5_000);
    expect(world.runtime.calls.writes).toBe(0);
    world.apply("web", { ...web, image: "web:2" });
    await world.waitUntilReady("web");
    expect(world.listContainers("web").map((container) => container.spec.image)).toEqual(["web:2"]);
    expect(world.app("web")?.status?.revisions.stable).toBe(null);
    await world.clock.advance(15_000);
    expect(world.app("web")?.status?.revisions).toEqual({ attempted: 2, applied: 2, stable: 2 });
  });

  test("a change of replicas leaves the other replicas alone", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    const [first] = world.listContainers("web");
    world.apply("web", { ...web, replicas: 3 });
    await world.waitUntilReady("web");
    expect(world.listContainers("web")).toHaveLength(3);
    world.apply("web", web);
    await world.waitUntilReady("web");
    expect(world.listContainers("web").map((container) => container.id)).toEqual([first?.id]);
  });

  test("stop keeps the container, start uses it again", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    const [first] = world.listContainers("web");
    world.apply("web", { ...web, running: false });
    await world.waitForPhase("web", "stopped");
    expect(world.listContainers("web").map((container) => container.state)).toEqual(["exited"]);
    world.apply("web", web);
    await world.waitUntilReady("web");
    expect(world.listContainers("web").map((container) => container.id)).toEqual([first?.id]);
    expect(world.app("web")?.status?.restarts).toBe(0);
  });

  test("a suspended app is not touched", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    world.apply("web", { ...web, suspend: true });
    await world.clock.advance(1_000);
    world.engine.kill(world.listContainers("web")[0]?.id ?? "");
    world.runtime.resetCalls();
    await world.clock.advance(120_000);
    expect(world.runtime.calls.writes).toBe(0);
    expect(world.condition("web", "Ready")).toMatchObject({ status: "False", reason: "Suspended" });
  });

  test("a deletion removes containers and keeps volumes, unless the user asks to delete them", async () => {
    await using world = new ControlPlaneHarness().boot();
    const spec = { ...web, volumes: [{ name: "data", path: "/data" }] };
    world.apply("keep", spec);
    world.apply("drop", spec);
    await world.waitUntilReady("keep");
    await world.waitUntilReady("drop");
    const actor = { name: "test" };
    world.store.delete("App", "keep", { actor, manager: "api" });
    world.store.delete("App", "drop", { actor, manager: "api", deleteVolumes: true });
    await world.clock.until(
      () => !world.app("keep") && !world.app("drop"),
      60_000,
      "both are gone",
    );
    expect(world.engine.containers()).toEqual([]);
    expect([...world.engine.volumes.keys()]).toEqual(["berth-0123abcd-keep-data"]);
  });

  test("a deletion that the engine refuses is retried until it succeeds", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    world.engine.setReachable(false);
    await world.clock.advance(1_000);
    world.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
    await world.clock.advance(60_000);
    expect(world.app("web")?.status?.phase).toBe("deleting");
    world.engine.setReachable(true);
    await world.clock.until(() => !world.app("web"), 400_000, "it is gone");
    expect(world.engine.containers()).toEqual([]);
  });
});

describe("drift", () => {
  test.each([
    ["killed", (world: ControlPlaneHarness, id: string) => world.engine.kill(id)],
    ["removed", (world: ControlPlaneHarness, id: string) => world.engine.remove(id)],
    [
      "renamed",
      (world: ControlPlaneHarness, id: string) => world.engine.rename(id, "something-else"),
    ],
    [
      "disconnected",
      (world: ControlPlaneHarness, id: string) => world.engine.disconnect(id, "berth-0123abcd"),
    ],
    [
      "edited",
      (world: ControlPlaneHarness, id: string) => world.engine.update(id, { memoryBytes: 1 }),
    ],
    ["paused", (world: ControlPlaneHarness, id: string) => world.engine.pause(id)],
    ["unhealthy", (world: ControlPlaneHarness, id: string) => world.engine.makeUnhealthy(id)],
  ])(
    "%s by hand is corrected, with an event, even if the engine's event is lost",
    async (_what, meddle) => {
      for (const deliverEvents of [true, false]) {
        await using world = new ControlPlaneHarness().boot();
        world.apply("web", web);
        await world.waitUntilReady("web");
        await world.clock.advance(15_000);
        world.engine.deliverEvents = deliverEvents;
        const before = world.store.events.list({ kind: "App", name: "web", limit: 100 }).length;
        meddle(world, world.listContainers("web")[0]?.id ?? "");
        await world.clock.advance(130_000);
        expect(world.isReady("web")).toBe(true);
        const [container] = world.listContainers("web");
        expect(container).toMatchObject({ state: "running", memoryBytes: null, unhealthy: false });
        expect(container?.name).toMatch(/^berth-0123abcd-web-/);
        expect([...(container?.networks.keys() ?? [])]).toContain("berth-0123abcd");
        expect(
          world.store.events.list({ kind: "App", name: "web", limit: 100 }).length,
        ).toBeGreaterThan(before);
      }
    },
  );

  test("after three corrections in ten minutes Berth stops correcting, and reports it", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    for (let i = 0; i < 4; i += 1) {
      world.engine.rename(world.listContainers("web")[0]?.id ?? "", `mine-${i}`);
      await world.clock.advance(2_000);
    }
    expect(world.listContainers("web")[0]?.name).toBe("mine-3");
    expect(world.condition("web", "Drifted")).toMatchObject({
      status: "True",
      reason: "DriftLoop",
    });
    world.retry("web");
    await world.waitUntilReady("web");
    expect(world.listContainers("web")[0]?.name).toMatch(/^berth-/);
    expect(world.condition("web", "Drifted")).toBeUndefined();
  });
});

describe("failures", () => {
  test("an image that exits at once is restarted within its budget, then Stalled with code and log", async () => {
    await using world = new ControlPlaneHarness({
      images: { "bad:1": { exits: { afterMs: 10, code: 3 }, logs: ["no config"] } },
    }).boot();
    world.apply("bad", { image: "bad:1", port: 80 });
    await world.waitForPhase("bad", "failed");
    const stalled = world.condition("bad", "Stalled");
    expect(stalled).toMatchObject({ status: "True", reason: "CrashLoop" });
    expect(stalled?.message).toContain("exit code 3");
    expect(stalled?.message).toContain("no config");
    expect(world.app("bad")?.status?.memory.restarts).toHaveLength(5);
    world.runtime.resetCalls();
    await world.clock.advance(30 * 60_000);
    expect(world.runtime.calls.writes).toBe(0);
    world.engine.setImage("bad:1", {});
    world.apply("bad", { image: "bad:1", port: 80, env: { CONFIG: "there" } });
    await world.waitUntilReady("bad");
  });

  test("a bad version is reverted to the last good one, quarantined, and not retried until it changes", async () => {
    await using world = new ControlPlaneHarness({
      images: { "web:1": {}, "web:2": {}, "bad:1": { exits: { afterMs: 10, code: 1 } } },
    }).boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    await world.clock.advance(15_000);
    world.apply("web", { ...web, image: "bad:1" });
    await world.waitForPhase("web", "degraded");
    await world.clock.until(
      () =>
        world.listContainers("web")[0]?.spec.image === "web:1" &&
        world.listContainers("web")[0]?.state === "running",
      60_000,
      "web:1 serves again",
    );
    await world.clock.advance(5_000);
    expect(world.condition("web", "Ready")).toMatchObject({ status: "False", reason: "Reverted" });
    expect(world.condition("web", "Available")).toMatchObject({ status: "True" });
    world.runtime.resetCalls();
    world.apply("web", { ...web, image: "bad:1" });
    await world.clock.advance(30 * 60_000);
    expect(world.runtime.calls.writes).toBe(0);
    world.apply("web", { ...web, image: "web:2" });
    await world.waitUntilReady("web");
    await world.clock.advance(15_000);
    expect(world.store.revisions.list("web").map((revision) => revision.state)).toEqual([
      "stable",
      "quarantined",
      "stable",
    ]);
  });

  test("if the version of a revert fails too, the app is stalled and not reverted again", async () => {
    await using world = new ControlPlaneHarness({
      images: { "web:1": {}, "bad:1": { exits: { afterMs: 10, code: 1 } } },
    }).boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    await world.clock.advance(15_000);
    world.engine.setImage("web:1", { exits: { afterMs: 10, code: 2 } });
    world.apply("web", { ...web, image: "bad:1" });
    await world.waitForPhase("web", "failed");
    expect(world.condition("web", "Stalled")).toMatchObject({
      status: "True",
      reason: "CrashLoop",
    });
    world.runtime.resetCalls();
    await world.clock.advance(60 * 60_000);
    expect(world.runtime.calls.writes).toBe(0);
  });

  test("a version that never becomes healthy fails at its deadline, with its last state and its real port", async () => {
    await using world = new ControlPlaneHarness({
      images: { "web:1": { listensOn: [3000] } },
    }).boot();
    world.apply("web", { ...web, rollout: { progressDeadline: "20s" } });
    await world.waitForPhase("web", "failed");
    expect(world.condition("web", "Stalled")).toMatchObject({ reason: "ProgressDeadlineExceeded" });
    expect(world.condition("web", "Stalled")?.message).toMatch(
      /port 80 was expected, but the app listens on 3000/,
    );
  });

  test("an image that does not exist is terminal, and the old version keeps running", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    await world.clock.advance(15_000);
    const [first] = world.listContainers("web");
    world.apply("web", { ...web, image: "nowhere:1" });
    await world.waitForPhase("web", "degraded");
    await world.clock.advance(600_000);
    expect(world.listContainers("web").map((container) => [container.id, container.state])).toEqual(
      [[first?.id, "running"]],
    );
    expect(world.condition("web", "Ready")?.message).toContain("nowhere:1");
  });

  test("a denied pull waits for credentials, and is retried when they are added", async () => {
    const auth = { username: "me", password: "letmein" };
    await using world = new ControlPlaneHarness({
      images: { "registry.test/web:1": { held: false, auth } },
    }).boot();
    world.apply("web", { image: "registry.test/web:1", port: 80 });
    await world.waitForPhase("web", "failed");
    expect(world.condition("web", "Stalled")).toMatchObject({ reason: "RegistryDenied" });
    world.store.apply({
      kind: "Secret",
      name: "registry",
      manager: "api",
      actor: { name: "test" },
      mode: "replace",
      spec: { type: "registry", data: { server: "registry.test", ...auth } },
    });
    await world.waitUntilReady("web");
  });

  test("a missing secret blocks the app and is named; the app starts when the secret is created", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", { ...web, env: { TOKEN: { secret: "hello-token" } } });
    await world.waitForPhase("web", "pending");
    expect(world.condition("web", "Accepted")).toMatchObject({
      status: "False",
      reason: "SecretNotFound",
    });
    world.store.apply({
      kind: "Secret",
      name: "hello-token",
      manager: "api",
      actor: { name: "test" },
      mode: "replace",
      spec: { data: { value: "s3cret" } },
    });
    await world.waitUntilReady("web");
    expect(world.listContainers("web")[0]?.spec.env).toContain("TOKEN=s3cret");
    world.store.apply({
      kind: "Secret",
      name: "hello-token",
      manager: "api",
      actor: { name: "test" },
      mode: "replace",
      spec: { data: { value: "rotated" } },
    });
    await world.clock.advance(5_000);
    await world.waitUntilReady("web");
    expect(world.listContainers("web")[0]?.spec.env).toContain("TOKEN=rotated");
  });

  test("dependsOn waits for Ready, reports a cycle, and does not stop running apps", async () => {
    await using world = new ControlPlaneHarness({
      images: { "web:1": {}, "db:1": { healthyAfterMs: 5_000, readyAfterMs: 5_000 } },
    }).boot();
    world.apply("web", { ...web, dependsOn: ["db"] });
    await world.waitForPhase("web", "pending");
    expect(world.condition("web", "Ready")).toMatchObject({ reason: "DependencyNotFound" });
    world.apply("db", { image: "db:1", port: 5432 });
    await world.clock.advance(2_000);
    expect(world.listContainers("web")).toEqual([]);
    await world.waitUntilReady("web");
    world.apply("db", { image: "db:1", port: 5432, dependsOn: ["web"] });
    await world.clock.advance(1_000);
    expect(world.condition("db", "Accepted")).toMatchObject({
      status: "False",
      reason: "DependencyCycle",
    });
  });

  test("while the engine cannot be reached the app is Unknown, never Ready; it converges afterwards", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    world.engine.setReachable(false);
    await world.clock.advance(5_000);
    expect(world.condition("web", "Ready")).toMatchObject({
      status: "Unknown",
      reason: "EngineUnreachable",
    });
    expect(world.app("web")?.status).toMatchObject({ phase: "unknown" });
    expect(world.app("web")?.status?.containers).toHaveLength(1);
    world.engine.setReachable(true);
    await world.waitUntilReady("web");
  });

  test("an engine restart ends every container, and all of them start again", async () => {
    await using world = new ControlPlaneHarness().boot();
    for (const name of ["a", "b", "c"]) world.apply(name, { ...web, replicas: 2 });
    for (const name of ["a", "b", "c"]) await world.waitUntilReady(name);
    world.engine.restart();
    await world.clock.advance(60_000);
    for (const name of ["a", "b", "c"]) expect(world.isReady(name)).toBe(true);
  });

  test("a container of another program is never touched, and a conflict of names is reported", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    await world.waitUntilReady("web");
    const name = world.listContainers("web")[0]?.name ?? "";
    world.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
    await world.clock.until(() => !world.app("web"), 60_000, "it is gone");
    const stranger = world.runtime.addStranger(name);
    world.apply("web", web);
    await world.clock.advance(10_000);
    expect(world.condition("web", "Ready")?.message).toContain(name);
    expect(world.engine.container(stranger).state).toBe("running");
    world.engine.remove(stranger);
    await world.waitUntilReady("web", 400_000);
  });

  test("a loopback port that another program has taken is replaced", async () => {
    await using world = new ControlPlaneHarness().boot();
    world.apply("web", web);
    const port = world.store.ports.lease("web", 0, 80);
    world.engine.setImage("other:1", {});
    const taken = world.engine.create({
      name: "other",
      image: "other:1",
      labels: {},
      env: [],
      network: "bridge",
      aliases: [],
      mounts: [],
      publish: [{ containerPort: 80, protocol: "tcp", hostAddress: "127.0.0.1", hostPort: port }],
      stopGraceMs: 1,
    });
    world.engine.networks.set("bridge", {});
    world.engine.start(taken.id);
    await world.waitUntilReady("web");
    expect(world.app("web")?.status?.url).not.toBe(`http://127.0.0.1:${port}`);
  });
});
