import { expect, test } from "vitest";
import { findPairedAddress } from "../../../../src/controller/reserved-addresses.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { RESERVED_RANGE } from "../../../support/fake-engine.ts";

/**
 * Tests of the two addresses of each replica. Rollouts alternate between them, so that Caddy can keep the App's direct
 * route.
 */

const images = {
  "web:1": {},
  "web:2": {},
  "web:3": {},
  "dies:1": { exits: { afterMs: 1_500, code: 1 } },
  "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY },
};
const web: AppSpec = { image: "web:1", port: 80, replicas: 2 };

async function serving(spec: AppSpec = web): Promise<ControlPlaneHarness> {
  const harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  await settle(harness);
  return harness;
}

/** Waits until the previous version is gone. */
const settle = (harness: ControlPlaneHarness) => harness.clock.advance(60_000);

async function rollOut(harness: ControlPlaneHarness, spec: AppSpec): Promise<void> {
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  await settle(harness);
}

const targetsOf = (harness: ControlPlaneHarness, app = "web") =>
  (harness.routes?.routes.get(app)?.targets ?? []).toSorted();

/** Replaces the address of each target by the other address that is reserved for the target's replica. */
const pairsOf = (targets: readonly string[]) =>
  targets
    .map((target) => {
      const [address = "", port] = target.split(":");
      return `${findPairedAddress(RESERVED_RANGE, address)}:${port}`;
    })
    .toSorted();

test("the versions of an app use the two addresses of each replica in turn", async () => {
  await using harness = await serving();
  const first = targetsOf(harness);
  for (let round = 1; round <= 5; round += 1) {
    await rollOut(harness, { ...web, env: { ROUND: String(round) } });
    expect(targetsOf(harness)).toEqual(round % 2 === 0 ? first : pairsOf(first));
  }
  expect(new Set([...first, ...pairsOf(first)]).size).toBe(4);
});

test("with the strategy recreate, a new version uses the other one of the two addresses of its replica", async () => {
  const spec = { ...web, replicas: 1, rollout: { strategy: "recreate" } } as const;
  await using harness = await serving(spec);
  const first = targetsOf(harness);
  await rollOut(harness, { ...spec, image: "web:2" });
  expect(targetsOf(harness)).toEqual(pairsOf(first));
});

test("if two versions use both addresses of a replica, a third version gets an address from the engine, and the next version one of the two again", async () => {
  await using harness = await serving({ ...web, replicas: 1 });
  const first = targetsOf(harness);
  harness.apply("web", { ...web, replicas: 1, image: "sick:1" });
  await harness.clock.advance(5_000);
  expect(harness.listContainers("web").map(({ state }) => state)).toEqual(["running", "running"]);
  await rollOut(harness, { ...web, replicas: 1, image: "web:2" });
  expect(pairsOf(targetsOf(harness))).toEqual(["undefined:80"]);
  await rollOut(harness, { ...web, replicas: 1, image: "web:3" });
  expect([first, pairsOf(first)]).toContainEqual(targetsOf(harness));
});

test("a version that was reverted to keeps its addresses", async () => {
  await using harness = await serving();
  const first = targetsOf(harness);
  harness.apply("web", { ...web, image: "dies:1" });
  await settle(harness);
  expect(harness.listServedImages("web")).toEqual(["web:1", "web:1"]);
  expect(targetsOf(harness)).toEqual(first);
  await rollOut(harness, { ...web, image: "web:2" });
  expect(targetsOf(harness)).toEqual(pairsOf(first));
});

test("the successor of a container that was removed, changed or disconnected by hand has its address", async () => {
  await using harness = await serving();
  const first = targetsOf(harness);
  const hands: ((id: string) => void)[] = [
    (id) => harness.engine.remove(id),
    (id) => void harness.engine.recreate(id, { image: "web:2" }),
    (id) => harness.engine.disconnect(id, "berth-0123abcd"),
  ];
  for (const change of hands) {
    change(harness.listContainers("web")[0]?.id ?? "");
    await settle(harness);
    expect(harness.isReady("web")).toBe(true);
    expect(targetsOf(harness)).toEqual(first);
  }
});

test("each added replica uses the first or the second of its two addresses, like the existing replicas of the version", async () => {
  await using harness = await serving({ ...web, replicas: 1 });
  await rollOut(harness, { ...web, replicas: 1, image: "web:2" });
  await rollOut(harness, { ...web, replicas: 3, image: "web:2" });
  const three = targetsOf(harness);
  expect(new Set(three).size).toBe(3);
  await rollOut(harness, { ...web, replicas: 3, image: "web:3" });
  expect(targetsOf(harness)).toEqual(pairsOf(three));
});

test("containers keep their addresses over a kill of Berth, a restart of the machine and a stop of the app", async () => {
  await using harness = await serving();
  const first = targetsOf(harness);
  await harness.kill();
  harness.boot();
  await settle(harness);
  await harness.restartMachine();
  harness.boot();
  await harness.waitUntilReady("web");
  expect(targetsOf(harness)).toEqual(first);
  harness.apply("web", { ...web, running: false });
  await harness.waitForPhase("web", "stopped");
  await rollOut(harness, web);
  expect(targetsOf(harness)).toEqual(first);
});

test("a kill of Berth while both versions run does not change which addresses are used", async () => {
  await using harness = await serving();
  const first = targetsOf(harness);
  harness.apply("web", { ...web, image: "web:2" });
  await harness.clock.until(
    () => targetsOf(harness).join() === pairsOf(first).join(),
    60_000,
    "the new version has the requests",
  );
  await harness.kill();
  harness.boot();
  await settle(harness);
  expect(targetsOf(harness)).toEqual(pairsOf(first));
  await rollOut(harness, { ...web, image: "web:3" });
  expect(targetsOf(harness)).toEqual(first);
});

test("the addresses of a deleted app are free for another app", async () => {
  await using harness = await serving();
  const first = targetsOf(harness);
  harness.apply("other", web);
  await harness.waitUntilReady("other");
  expect(new Set([...first, ...pairsOf(first), ...targetsOf(harness, "other")]).size).toBe(6);
  harness.store.delete("App", "web", { manager: "api", actor: { name: "test" } });
  await harness.clock.until(() => harness.app("web") === undefined, 60_000, "web is deleted");
  harness.apply("heir", web);
  await harness.waitUntilReady("heir");
  expect(targetsOf(harness, "heir")).toEqual(first);
});

test("an app runs at an address from the engine while a container of another program uses the app's reserved address", async () => {
  await using harness = await serving({ ...web, replicas: 1 });
  const first = targetsOf(harness);
  const stranger = harness.engine.create({
    name: "stranger",
    image: "web:3",
    labels: {},
    env: [],
    network: "berth-0123abcd",
    aliases: [],
    mounts: [],
    publish: [],
    stopGraceMs: 0,
    reservedAddress: 1,
  });
  harness.engine.start(stranger.id);
  await rollOut(harness, { ...web, replicas: 1, image: "web:2" });
  expect(pairsOf(targetsOf(harness))).toEqual(["undefined:80"]);
  expect(harness.app("web")?.status?.restarts).toBe(0);
  await rollOut(harness, { ...web, replicas: 1, image: "web:3" });
  expect(targetsOf(harness)).toEqual(first);
});

test("apps to which the ingress forwards no requests have no reserved addresses", async () => {
  await using harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
  harness.apply("worker", { image: "web:1" });
  harness.apply("database", { image: "web:1", port: 5432, domain: "none" });
  for (const app of ["worker", "database"]) {
    await harness.waitUntilReady(app);
    expect(harness.listContainers(app).map((item) => item.reservedAddress)).toEqual([null]);
    expect(harness.store.addresses.get(app, 0)).toBeUndefined();
  }
});

test("a container with a reserved address does not differ from its spec, and a dry run leases no address", async () => {
  await using harness = await serving();
  const plan = await harness.controlPlane.planApp("web", web, new AbortController().signal);
  expect(plan.operations).toEqual([]);
  await harness.controlPlane.planApp("new", web, new AbortController().signal);
  expect(harness.store.addresses.get("new", 0)).toBeUndefined();
});
