import { describe, expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { applyResource } from "../../../support/test-store.ts";

const web: AppSpec = { image: "web:1", port: 80 };

describe("an App", () => {
  test("starts, becomes Ready for its generation, and then needs no more calls to the engine", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", { ...web, replicas: 2 });
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web").map((container) => container.state)).toEqual([
      "running",
      "running",
    ]);
    await harness.clock.advance(15_000);
    expect(harness.app("web")?.status).toMatchObject({
      phase: "running",
      observedGeneration: 1,
      revisions: { attempted: 1, applied: 1, stable: 1 },
    });
    expect(harness.app("web")?.status?.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    await harness.clock.advance(5_000);
    harness.runtime.resetCalls();
    await harness.clock.advance(10 * 60_000);
    expect(harness.runtime.calls.writes).toBe(0);
  });

  test("makes no call for an identical re-apply; a new image replaces the container", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    await harness.clock.advance(1_000);
    harness.runtime.resetCalls();
    harness.apply("web", web);
    await harness.clock.advance(5_000);
    expect(harness.runtime.calls.writes).toBe(0);
    harness.apply("web", { ...web, image: "web:2" });
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web").map((container) => container.spec.image)).toEqual([
      "web:2",
    ]);
    expect(harness.app("web")?.status?.revisions.stable).toBe(null);
    await harness.clock.advance(15_000);
    expect(harness.app("web")?.status?.revisions).toEqual({ attempted: 2, applied: 2, stable: 2 });
  });

  test("keeps its first container when replicas are added and removed again", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    const [first] = harness.listContainers("web");
    harness.apply("web", { ...web, replicas: 3 });
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web")).toHaveLength(3);
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web").map((container) => container.id)).toEqual([first?.id]);
  });

  test("keeps its container when it is stopped, and starts the same container again", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    const [first] = harness.listContainers("web");
    harness.apply("web", { ...web, running: false });
    await harness.waitForPhase("web", "stopped");
    expect(harness.listContainers("web").map((container) => container.state)).toEqual(["exited"]);
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web").map((container) => container.id)).toEqual([first?.id]);
    expect(harness.app("web")?.status?.restarts).toBe(0);
  });

  test("is not touched while it is suspended", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    harness.apply("web", { ...web, suspend: true });
    await harness.clock.advance(1_000);
    harness.engine.kill(harness.listContainers("web")[0]?.id ?? "");
    harness.runtime.resetCalls();
    await harness.clock.advance(120_000);
    expect(harness.runtime.calls.writes).toBe(0);
    expect(harness.condition("web", "Ready")).toMatchObject({
      status: "False",
      reason: "Suspended",
    });
  });

  test("loses its containers when it is deleted, and loses its volumes only if the user asks for it", async () => {
    await using harness = new ControlPlaneHarness().boot();
    const spec = { ...web, volumes: [{ name: "data", path: "/data" }] };
    harness.apply("keep", spec);
    harness.apply("drop", spec);
    await harness.waitUntilReady("keep");
    await harness.waitUntilReady("drop");
    const actor = { name: "test" };
    harness.store.delete("App", "keep", { actor, manager: "api" });
    harness.store.delete("App", "drop", { actor, manager: "api", deleteVolumes: true });
    await harness.clock.until(
      () => !harness.app("keep") && !harness.app("drop"),
      60_000,
      "both are gone",
    );
    expect(harness.engine.containers()).toEqual([]);
    expect([...harness.engine.volumes.keys()]).toEqual(["berth-0123abcd-keep-data"]);
  });

  test("is deleted in the end, even if the engine refuses the deletion at first", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    harness.engine.setReachable(false);
    await harness.clock.advance(1_000);
    harness.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
    await harness.clock.advance(60_000);
    expect(harness.app("web")?.status?.phase).toBe("deleting");
    harness.engine.setReachable(true);
    await harness.clock.until(() => !harness.app("web"), 400_000, "it is gone");
    expect(harness.engine.containers()).toEqual([]);
  });
});

describe("drift of an App", () => {
  test.each([
    ["killed", (harness: ControlPlaneHarness, id: string) => harness.engine.kill(id)],
    ["removed", (harness: ControlPlaneHarness, id: string) => harness.engine.remove(id)],
    [
      "renamed",
      (harness: ControlPlaneHarness, id: string) => harness.engine.rename(id, "something-else"),
    ],
    [
      "disconnected",
      (harness: ControlPlaneHarness, id: string) => harness.engine.disconnect(id, "berth-0123abcd"),
    ],
    [
      "edited",
      (harness: ControlPlaneHarness, id: string) => harness.engine.update(id, { memoryBytes: 1 }),
    ],
    ["paused", (harness: ControlPlaneHarness, id: string) => harness.engine.pause(id)],
    ["unhealthy", (harness: ControlPlaneHarness, id: string) => harness.engine.makeUnhealthy(id)],
  ])(
    "is corrected with an event after %s by hand, even if the engine's event is lost",
    async (_what, meddle) => {
      for (const deliverEvents of [true, false]) {
        await using harness = new ControlPlaneHarness().boot();
        harness.apply("web", web);
        await harness.waitUntilReady("web");
        await harness.clock.advance(15_000);
        harness.engine.deliverEvents = deliverEvents;
        const before = harness.store.events.list({ kind: "App", name: "web", limit: 100 }).length;
        meddle(harness, harness.listContainers("web")[0]?.id ?? "");
        await harness.clock.advance(130_000);
        expect(harness.isReady("web")).toBe(true);
        const [container] = harness.listContainers("web");
        expect(container).toMatchObject({ state: "running", memoryBytes: null, unhealthy: false });
        expect(container?.name).toMatch(/^berth-0123abcd-web-/);
        expect([...(container?.networks.keys() ?? [])]).toContain("berth-0123abcd");
        expect(
          harness.store.events.list({ kind: "App", name: "web", limit: 100 }).length,
        ).toBeGreaterThan(before);
      }
    },
  );

  test("is reported instead of corrected after three corrections in ten minutes", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    for (let i = 0; i < 4; i += 1) {
      harness.engine.rename(harness.listContainers("web")[0]?.id ?? "", `mine-${i}`);
      await harness.clock.advance(2_000);
    }
    expect(harness.listContainers("web")[0]?.name).toBe("mine-3");
    expect(harness.condition("web", "Drifted")).toMatchObject({
      status: "True",
      reason: "DriftLoop",
    });
    harness.retry("web");
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web")[0]?.name).toMatch(/^berth-/);
    expect(harness.condition("web", "Drifted")).toBeUndefined();
  });
});

describe("failures of an App", () => {
  test("a container that exits at once is restarted within its budget; then the App is Stalled with the exit code and the log", async () => {
    await using harness = new ControlPlaneHarness({
      images: { "bad:1": { exits: { afterMs: 10, code: 3 }, logs: ["no config"] } },
    }).boot();
    harness.apply("bad", { image: "bad:1", port: 80 });
    await harness.waitForPhase("bad", "failed");
    const stalled = harness.condition("bad", "Stalled");
    expect(stalled).toMatchObject({ status: "True", reason: "CrashLoop" });
    expect(stalled?.message).toContain("exit code 3");
    expect(stalled?.message).toContain("no config");
    expect(harness.app("bad")?.status?.memory.restarts).toHaveLength(5);
    harness.runtime.resetCalls();
    await harness.clock.advance(30 * 60_000);
    expect(harness.runtime.calls.writes).toBe(0);
    harness.engine.setBehaviour("bad:1", {});
    harness.apply("bad", { image: "bad:1", port: 80, env: { CONFIG: "there" } });
    await harness.waitUntilReady("bad");
  });

  test("a bad version is reverted to the last good version, is quarantined, and is not tried again until the spec changes", async () => {
    await using harness = new ControlPlaneHarness({
      images: { "web:1": {}, "web:2": {}, "bad:1": { exits: { afterMs: 10, code: 1 } } },
    }).boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
    harness.apply("web", { ...web, image: "bad:1" });
    await harness.waitForPhase("web", "degraded");
    await harness.clock.until(
      () =>
        harness.listContainers("web")[0]?.spec.image === "web:1" &&
        harness.listContainers("web")[0]?.state === "running",
      60_000,
      "web:1 serves again",
    );
    await harness.clock.advance(5_000);
    expect(harness.condition("web", "Ready")).toMatchObject({
      status: "False",
      reason: "Reverted",
    });
    expect(harness.condition("web", "Available")).toMatchObject({ status: "True" });
    harness.runtime.resetCalls();
    harness.apply("web", { ...web, image: "bad:1" });
    await harness.clock.advance(30 * 60_000);
    expect(harness.runtime.calls.writes).toBe(0);
    harness.apply("web", { ...web, image: "web:2" });
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
    expect(harness.store.revisions.list("web").map((revision) => revision.state)).toEqual([
      "stable",
      "quarantined",
      "stable",
    ]);
  });

  test("if the version of a revert fails too, that version is restarted at growing intervals and not reverted again", async () => {
    await using harness = new ControlPlaneHarness({
      images: { "web:1": {}, "bad:1": { exits: { afterMs: 10, code: 1 } } },
    }).boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
    harness.engine.setBehaviour("web:1", { exits: { afterMs: 10, code: 2 } });
    harness.apply("web", { ...web, image: "bad:1" });
    await harness.waitForPhase("web", "failed");
    expect(harness.condition("web", "Stalled")).toMatchObject({
      status: "True",
      reason: "CrashLoop",
    });
    const isWaiting = () => harness.app("web")?.status?.nextRetryAt !== null;
    await harness.clock.until(isWaiting, 60_000, "the next restart has a time");
    const created = () => harness.listContainers("web").map(({ id }) => id);
    const before = created();
    await harness.clock.advance(60 * 60_000);
    expect(created()).toEqual(before);
    expect(harness.condition("web", "Stalled")?.status).toBe("True");
  });

  test("a version that never becomes healthy fails at its deadline, and the error has its last state and its real port", async () => {
    await using harness = new ControlPlaneHarness({
      images: { "web:1": { listensOn: [3000] } },
    }).boot();
    harness.apply("web", { ...web, rollout: { progressDeadline: "20s" } });
    await harness.waitForPhase("web", "failed");
    expect(harness.condition("web", "Stalled")).toMatchObject({
      reason: "ProgressDeadlineExceeded",
    });
    expect(harness.condition("web", "Stalled")?.message).toMatch(
      /port 80 was expected, but the app listens on 3000/,
    );
  });

  test("an image that does not exist is not retried, and the old version keeps running", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
    const [first] = harness.listContainers("web");
    harness.apply("web", { ...web, image: "nowhere:1" });
    await harness.waitForPhase("web", "degraded");
    await harness.clock.advance(600_000);
    expect(
      harness.listContainers("web").map((container) => [container.id, container.state]),
    ).toEqual([[first?.id, "running"]]);
    expect(harness.condition("web", "Ready")?.message).toContain("nowhere:1");
  });

  test("a denied pull waits for credentials, and is retried when the credentials are added", async () => {
    const auth = { username: "me", password: "letmein" };
    await using harness = new ControlPlaneHarness({
      images: { "registry.test/web:1": { held: false, auth } },
    }).boot();
    harness.apply("web", { image: "registry.test/web:1", port: 80 });
    await harness.waitForPhase("web", "failed");
    expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "RegistryDenied" });
    applyResource(harness.store, "Secret", "registry", {
      type: "registry",
      data: { server: "registry.test", ...auth },
    });
    await harness.waitUntilReady("web");
  });

  test("credentials that change while a pull is being denied are tried, even if the denial is not in the status yet", async () => {
    const auth = { username: "me", password: "letmein" };
    await using harness = new ControlPlaneHarness({
      images: { "registry.test/web:1": { held: false, auth } },
    }).boot();
    const setPassword = (password: string) =>
      applyResource(harness.store, "Secret", "registry", {
        type: "registry",
        data: { server: "registry.test", ...auth, password },
      });
    harness.apply("web", { image: "registry.test/web:1", port: 80 });
    await harness.waitForPhase("web", "failed");
    await harness.clock.advance(5_000);
    const stop = harness.store.watch(() => {
      const events = harness.store.events.list({ kind: "App", name: "web", limit: 100 });
      if (!events.some(({ reason, count }) => reason === "RegistryDenied" && count === 2)) return;
      stop();
      setPassword(auth.password);
    });
    setPassword("nonsense");
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web")).toHaveLength(1);
  });

  test("a missing Secret blocks the app and is named; the app starts when the Secret is created", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", { ...web, env: { TOKEN: { secret: "hello-token" } } });
    await harness.waitForPhase("web", "pending");
    expect(harness.condition("web", "Accepted")).toMatchObject({
      status: "False",
      reason: "SecretNotFound",
    });
    applyResource(harness.store, "Secret", "hello-token", { data: { value: "s3cret" } });
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web")[0]?.spec.env).toContain("TOKEN=s3cret");
    applyResource(harness.store, "Secret", "hello-token", { data: { value: "rotated" } });
    await harness.clock.advance(5_000);
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web")[0]?.spec.env).toContain("TOKEN=rotated");
  });

  test("dependsOn waits until the apps are Ready, reports a cycle, and does not stop running apps", async () => {
    await using harness = new ControlPlaneHarness({
      images: { "web:1": {}, "db:1": { healthyAfterMs: 5_000, readyAfterMs: 5_000 } },
    }).boot();
    harness.apply("web", { ...web, dependsOn: ["db"] });
    await harness.waitForPhase("web", "pending");
    expect(harness.condition("web", "Ready")).toMatchObject({ reason: "DependencyNotFound" });
    harness.apply("db", { image: "db:1", port: 5432 });
    await harness.clock.advance(2_000);
    expect(harness.listContainers("web")).toEqual([]);
    await harness.waitUntilReady("web");
    harness.apply("db", { image: "db:1", port: 5432, dependsOn: ["web"] });
    await harness.clock.advance(1_000);
    expect(harness.condition("db", "Accepted")).toMatchObject({
      status: "False",
      reason: "DependencyCycle",
    });
  });

  test("while the engine cannot be reached, the app is Unknown and never Ready; afterwards it converges", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    harness.engine.setReachable(false);
    await harness.clock.advance(5_000);
    expect(harness.condition("web", "Ready")).toMatchObject({
      status: "Unknown",
      reason: "EngineUnreachable",
    });
    expect(harness.app("web")?.status).toMatchObject({ phase: "unknown" });
    expect(harness.app("web")?.status?.containers).toHaveLength(1);
    harness.engine.setReachable(true);
    await harness.waitUntilReady("web");
  });

  test("an engine restart ends every container, and Berth starts all of them again", async () => {
    await using harness = new ControlPlaneHarness().boot();
    for (const name of ["a", "b", "c"]) harness.apply(name, { ...web, replicas: 2 });
    for (const name of ["a", "b", "c"]) await harness.waitUntilReady(name);
    harness.engine.restart();
    await harness.clock.advance(60_000);
    for (const name of ["a", "b", "c"]) expect(harness.isReady(name)).toBe(true);
  });

  test("a container of another program is never touched, and a conflict of container names is reported", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    const name = harness.listContainers("web")[0]?.name ?? "";
    harness.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
    await harness.clock.until(() => !harness.app("web"), 60_000, "it is gone");
    const stranger = harness.runtime.addStranger(name);
    harness.apply("web", web);
    await harness.clock.advance(10_000);
    expect(harness.condition("web", "Ready")?.message).toContain(name);
    expect(harness.engine.container(stranger).state).toBe("running");
    harness.engine.remove(stranger);
    await harness.waitUntilReady("web", 400_000);
  });

  test("a loopback port that another program uses is replaced by another port", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", web);
    const port = harness.store.ports.lease("web", 0, 80);
    harness.engine.setImage("other:1", {});
    const taken = harness.engine.create({
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
    harness.engine.networks.set("bridge", {});
    harness.engine.start(taken.id);
    await harness.waitUntilReady("web");
    expect(harness.app("web")?.status?.url).not.toBe(`http://127.0.0.1:${port}`);
  });
});
