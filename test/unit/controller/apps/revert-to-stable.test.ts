import { expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { RETRIED_AT_ANNOTATION } from "../../../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { applyResource } from "../../../support/test-store.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const bad = { exits: { afterMs: 10, code: 1 } } as const;

function setSecret(harness: ControlPlaneHarness, name: string, data: Record<string, string>): void {
  applyResource(harness.store, "Secret", name, { data });
}

const imagesOf = (harness: ControlPlaneHarness) =>
  harness.listContainers("web").map((container) => container.spec.image);

/** Makes web:1 a stable version, and waits until the App is reverted to it because `spec` has failed. */
async function reverted(
  harness: ControlPlaneHarness,
  spec: AppSpec,
  first: AppSpec = web,
): Promise<void> {
  harness.apply("web", first);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", spec);
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await harness.clock.advance(15_000);
  expect(harness.condition("web", "Available")?.status).toBe("True");
}

test("a stable version whose restart fails is not replaced by an older version", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { ...web, image: "web:2" });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.engine.setBehaviour("web:2", bad);
  harness.restart("web");
  await harness.waitForPhase("web", "failed");
  expect(imagesOf(harness)).toEqual(["web:2"]);
  expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "CrashLoop" });
});

test("a revert chooses the version that was stable last, not the version with the highest number", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": {}, "bad:1": bad },
  }).boot();
  for (const image of ["web:1", "web:2", "web:1"]) {
    harness.apply("web", { ...web, image });
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
  }
  expect(harness.app("web")?.status?.revisions.stable).toBe(1);
  harness.apply("web", { ...web, image: "bad:1" });
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await harness.clock.advance(15_000);
  expect(imagesOf(harness)).toEqual(["web:1"]);
});

test("a version whose secret is missing is not chosen for a revert", async () => {
  await using harness = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  setSecret(harness, "token", { value: "one" });
  harness.apply("web", { ...web, env: { TOKEN: { secret: "token" } } });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { ...web, image: "bad:1" });
  harness.store.delete("Secret", "token", { actor: { name: "test" }, manager: "api" });
  await harness.waitForPhase("web", "failed");
  harness.runtime.resetCalls();
  await harness.clock.advance(60 * 60_000);
  expect(harness.runtime.calls.writes).toBe(0);
});

test("a correction of the health check retries the version that failed because of the old health check", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": { listensOn: [80] } },
  }).boot();
  const wrong = { ...web, image: "web:2", healthCheck: { port: 81 } };
  await reverted(harness, { ...wrong, rollout: { progressDeadline: "10s" } });
  harness.apply("web", { ...web, image: "web:2", rollout: { progressDeadline: "10s" } });
  await harness.waitUntilReady("web");
  expect(imagesOf(harness)).toEqual(["web:2"]);
});

test("a restart after a revert restarts the earlier version, and does not retry the failed version", async () => {
  await using harness = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  await reverted(harness, { ...web, image: "bad:1" });
  const [held] = harness.listContainers("web");
  harness.restart("web");
  await harness.clock.advance(60_000);
  expect(imagesOf(harness)).toEqual(["web:1"]);
  expect(harness.listContainers("web")[0]?.id).not.toBe(held?.id);
  const creations = harness.store.events
    .list({ kind: "App", name: "web", limit: 100 })
    .filter((event) => event.reason === "Reverted");
  expect(creations.map((event) => event.count)).toEqual([1]);
});

test("new registry credentials do not retry a version that was pulled and then crashed", async () => {
  await using harness = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  await reverted(harness, { ...web, image: "bad:1" });
  harness.runtime.resetCalls();
  applyResource(harness.store, "Secret", "registry", {
    type: "registry",
    data: { server: "r.test", username: "a", password: "b" },
  });
  await harness.clock.advance(60_000);
  expect(harness.runtime.calls.writes).toBe(0);
});

test("after a revert, the version is probed with its latest health check, not with its first one", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": { listensOn: [80, 81] }, "bad:1": bad },
  }).boot();
  harness.apply("web", { ...web, healthCheck: { port: 81 } });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.engine.setBehaviour("web:1", { listensOn: [80] });
  await reverted(harness, { ...web, image: "bad:1" });
  await harness.clock.advance(300_000);
  expect(harness.condition("web", "Available")?.status).toBe("True");
  expect(harness.condition("web", "Stalled")).toBeUndefined();
});

test("no event reports the failed generation as running", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "web:1": {}, "bad:1": { startError: "no such file" } },
  }).boot();
  await reverted(harness, { ...web, image: "bad:1" });
  const said = harness.store.events
    .list({ kind: "App", name: "web", limit: 100 })
    .filter((event) => event.reason === "Ready")
    .map((event) => event.message);
  expect(said).toContain(
    "revision 1, which replaces the failed generation 2, is running and healthy",
  );
  expect(said.filter((message) => message.startsWith("generation 2"))).toEqual([]);
});

test("the removal of the retry annotation by a spec file does not trigger a retry", async () => {
  await using harness = new ControlPlaneHarness({ images: { "web:1": {}, "bad:1": bad } }).boot();
  await reverted(harness, { ...web, image: "bad:1" });
  harness.retry("web");
  await harness.clock.advance(60_000);
  expect(harness.condition("web", "Ready")?.reason).toBe("Reverted");
  harness.runtime.resetCalls();
  harness.annotate("web", { [RETRIED_AT_ANNOTATION]: null });
  await harness.clock.advance(60_000);
  expect(harness.runtime.calls.writes).toBe(0);
});

test("a version whose containers the engine refuses to create is reverted at its deadline", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.runtime.faults = {
    beforeCall: ({ name, args }) => {
      const [spec] = args;
      if (name === "createContainer" && JSON.stringify(spec).includes("web:2"))
        throw new BerthError("engine_error", "invalid mount config: no such folder");
    },
  };
  harness.apply("web", { ...web, image: "web:2" });
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    600_000,
    "it was reverted",
  );
  await harness.clock.advance(15_000);
  expect(imagesOf(harness)).toEqual(["web:1"]);
  expect(harness.condition("web", "Ready")?.message).toContain("no such folder");
});

test("a volume that was removed by hand is created again with its labels", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", { ...web, volumes: [{ name: "data", path: "/data" }] });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const [container] = harness.listContainers("web");
  harness.engine.remove(container?.id ?? "");
  harness.engine.volumes.clear();
  await harness.clock.advance(5_000);
  await harness.waitUntilReady("web");
  const labels = [...harness.engine.volumes.values()];
  expect(labels).toEqual([expect.objectContaining({ "dev.berth.app": "web" })]);
});

test("a version that the user rolled back to becomes the target of reverts, whatever its age", async () => {
  await using harness = new ControlPlaneHarness({
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
    harness.apply("web", numbered(n));
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
  }
  harness.apply("web", { ...web, image: "sick:1" });
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await harness.clock.advance(60_000);
  const running = harness.listContainers("web").filter(({ state }) => state === "running");
  expect(running.map(({ spec }) => spec.env)).toEqual([["N=0"]]);
});
