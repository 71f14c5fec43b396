import { expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import {
  RESTARTED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
} from "../../../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const bad = { exits: { afterMs: 10, code: 1 } } as const;

function restart(world: ControlPlaneHarness): void {
  world.store.apply({
    kind: "App",
    name: "web",
    manager: "api",
    actor: { name: "test" },
    mode: "merge",
    spec: {},
    annotations: { [RESTARTED_AT_ANNOTATION]: String(world.clock.now()) },
  });
}

function setSecret(world: ControlPlaneHarness, name: string, data: Record<string, string>): void {
  world.store.apply({
    kind: "Secret",
    name,
    manager: "api",
    actor: { name: "test" },
    mode: "replace",
    spec: { data },
  });
}

const imagesOf = (world: ControlPlaneHarness) =>
  world.listContainers("web").map((container) => container.spec.image);

/** Makes web:1 good, and waits until the App is reverted to it because `spec` has failed. */
async function reverted(
  world: ControlPlaneHarness,
  spec: AppSpec,
  first: AppSpec = web,
): Promise<void> {
  world.apply("web", first);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", spec);
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await world.clock.advance(15_000);
  expect(world.condition("web", "Available")?.status).toBe("True");
}

test("a good version whose restart fails is not replaced by an older one", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", { ...web, image: "web:2" });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.engine.setImage("web:2", bad);
  restart(world);
  await world.waitForPhase("web", "failed");
  expect(imagesOf(world)).toEqual(["web:2"]);
  expect(world.condition("web", "Stalled")).toMatchObject({ reason: "CrashLoop" });
});

test("a revert chooses the version that was good last, not the one with the highest number", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": {}, "bad:1": bad },
  }).boot();
  for (const image of ["web:1", "web:2", "web:1"]) {
    world.apply("web", { ...web, image });
    await world.waitUntilReady("web");
    await world.clock.advance(15_000);
  }
  expect(world.app("web")?.status?.revisions.stable).toBe(1);
  world.apply("web", { ...web, image: "bad:1" });
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await world.clock.advance(15_000);
  expect(imagesOf(world)).toEqual(["web:1"]);
});

test("a version whose secret is missing is not chosen for a revert", async () => {
  await using world = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  setSecret(world, "token", { value: "one" });
  world.apply("web", { ...web, env: { TOKEN: { secret: "token" } } });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.apply("web", { ...web, image: "bad:1" });
  world.store.delete("Secret", "token", { actor: { name: "test" }, manager: "api" });
  await world.waitForPhase("web", "failed");
  world.runtime.resetCalls();
  await world.clock.advance(60 * 60_000);
  expect(world.runtime.calls.writes).toBe(0);
});

test("a corrected health check causes another try of the version that failed because of it", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": { listensOn: [80] } },
  }).boot();
  const wrong = { ...web, image: "web:2", healthCheck: { port: 81 } };
  await reverted(world, { ...wrong, rollout: { progressDeadline: "10s" } });
  world.apply("web", { ...web, image: "web:2", rollout: { progressDeadline: "10s" } });
  await world.waitUntilReady("web");
  expect(imagesOf(world)).toEqual(["web:2"]);
});

test("a restart after a revert restarts the earlier version, and does not retry the failed one", async () => {
  await using world = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  await reverted(world, { ...web, image: "bad:1" });
  const [held] = world.listContainers("web");
  restart(world);
  await world.clock.advance(60_000);
  expect(imagesOf(world)).toEqual(["web:1"]);
  expect(world.listContainers("web")[0]?.id).not.toBe(held?.id);
  const creations = world.store.events
    .list({ kind: "App", name: "web", limit: 100 })
    .filter((event) => event.reason === "Reverted");
  expect(creations.map((event) => event.count)).toEqual([1]);
});

test("new registry credentials do not retry a version that was pulled and crashed", async () => {
  await using world = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  await reverted(world, { ...web, image: "bad:1" });
  world.runtime.resetCalls();
  world.store.apply({
    kind: "Secret",
    name: "registry",
    manager: "api",
    actor: { name: "test" },
    mode: "replace",
    spec: { type: "registry", data: { server: "r.test", username: "a", password: "b" } },
  });
  await world.clock.advance(60_000);
  expect(world.runtime.calls.writes).toBe(0);
});

test("the version of a revert is probed with its latest health check, not with its first", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": { listensOn: [80, 81] }, "bad:1": bad },
  }).boot();
  world.apply("web", { ...web, healthCheck: { port: 81 } });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.engine.setImage("web:1", { listensOn: [80] });
  await reverted(world, { ...web, image: "bad:1" });
  await world.clock.advance(300_000);
  expect(world.condition("web", "Available")?.status).toBe("True");
  expect(world.condition("web", "Stalled")).toBeUndefined();
});

test("no event reports the failed generation as running", async () => {
  await using world = new ControlPlaneHarness({
    images: { "web:1": {}, "bad:1": { startError: "no such file" } },
  }).boot();
  await reverted(world, { ...web, image: "bad:1" });
  const said = world.store.events
    .list({ kind: "App", name: "web", limit: 100 })
    .filter((event) => event.reason === "Ready")
    .map((event) => event.message);
  expect(said).toContain(
    "revision 1, which replaces the failed generation 2, is running and healthy",
  );
  expect(said.filter((message) => message.startsWith("generation 2"))).toEqual([]);
});

test("the removal of the retry annotation by a spec file is no retry", async () => {
  await using world = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  await reverted(world, { ...web, image: "bad:1" });
  world.retry("web");
  await world.clock.advance(60_000);
  expect(world.condition("web", "Ready")?.reason).toBe("Reverted");
  world.runtime.resetCalls();
  world.store.apply({
    kind: "App",
    name: "web",
    manager: "api",
    actor: { name: "test" },
    mode: "merge",
    spec: {},
    annotations: { [RETRIED_AT_ANNOTATION]: null },
  });
  await world.clock.advance(60_000);
  expect(world.runtime.calls.writes).toBe(0);
});

test("a version whose containers the engine refuses to create is reverted at its deadline", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  world.runtime.faults = {
    beforeCall: ({ name, args }) => {
      const [spec] = args;
      if (name === "createContainer" && JSON.stringify(spec).includes("web:2"))
        throw new BerthError("engine_error", "invalid mount config: no such folder");
    },
  };
  world.apply("web", { ...web, image: "web:2" });
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    600_000,
    "it was reverted",
  );
  await world.clock.advance(15_000);
  expect(imagesOf(world)).toEqual(["web:1"]);
  expect(world.condition("web", "Ready")?.message).toContain("no such folder");
});

test("a volume that was removed by hand is created again with its labels", async () => {
  await using world = new ControlPlaneHarness().boot();
  world.apply("web", { ...web, volumes: [{ name: "data", path: "/data" }] });
  await world.waitUntilReady("web");
  await world.clock.advance(15_000);
  const [container] = world.listContainers("web");
  world.engine.remove(container?.id ?? "");
  world.engine.volumes.clear();
  await world.clock.advance(5_000);
  await world.waitUntilReady("web");
  const labels = [...world.engine.volumes.values()];
  expect(labels).toEqual([expect.objectContaining({ "dev.berth.app": "web" })]);
});

test("a version that the user rolled back to becomes the one to revert to, however old it is", async () => {
  await using world = new ControlPlaneHarness({
    images: {
      "web:1": {},
      "sick:1": {
        readyAfterMs: Number.POSITIVE_INFINITY,
        healthyAfterMs: Number.POSITIVE_INFINITY,
      },
    },
    ingress: "fake",
  }).boot();
  const numbered = (n: number): AppSpec => ({ ...web, env: { N: String(n) } });
  for (const n of [...Array(20).keys(), 0]) {
    world.apply("web", numbered(n));
    await world.waitUntilReady("web");
    await world.clock.advance(15_000);
  }
  world.apply("web", { ...web, image: "sick:1" });
  await world.clock.until(
    () => world.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await world.clock.advance(60_000);
  const running = world.listContainers("web").filter(({ state }) => state === "running");
  expect(running.map(({ spec }) => spec.env)).toEqual([["N=0"]]);
});
