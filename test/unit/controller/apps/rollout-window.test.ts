import { describe, expect, test } from "vitest";
import { assessApp } from "../../../../src/api/wait-for-app.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import type { FakeImage } from "../../../support/fake-engine.ts";

const never = { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY };
const images: Readonly<Record<string, FakeImage>> = {
  "web:1": {},
  "web:2": {},
  "web:3": {},
  "slow:1": { readyAfterMs: 4_000, healthyAfterMs: 4_000 },
  "hangs:1": never,
  "brief:1": { exits: { afterMs: 2_000, code: 3 }, logs: ["no module named wsgi"] },
  "warms-up:1": { healthyAfterMs: 4_000 },
  "smtp:1": { speaks: "other" },
  "silent:1": { speaks: "nothing" },
};
const web: AppSpec = { image: "web:1", port: 80 };
const recreated: AppSpec = { ...web, volumes: [{ name: "data", path: "/data" }] };
/** The time on the virtual clock within which the previous version must serve again. */
const BACK_LIMIT_MS = 1_000;

async function serving(spec: AppSpec = web, ingress: "fake" | "off" = "fake") {
  const harness = new ControlPlaneHarness({ images, ingress }).boot();
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  return harness;
}

const readyReason = (harness: ControlPlaneHarness) => harness.condition("web", "Ready")?.reason;
const running = (harness: ControlPlaneHarness) =>
  harness.listContainers("web").filter(({ state }) => state === "running");
const runningImages = (harness: ControlPlaneHarness) =>
  running(harness)
    .map(({ spec }) => spec.image)
    .toSorted();
const revisionStates = (harness: ControlPlaneHarness) =>
  harness.store.revisions.list("web").map(({ state }) => state);

async function untilServed(harness: ControlPlaneHarness, image: string, limitMs = 10_000) {
  const what = () => `${image} is served, not ${harness.listServedImages("web").join()}`;
  await harness.clock.until(
    () =>
      harness.listServedImages("web").length > 0 &&
      harness.listServedImages("web").every((served) => served === image),
    limitMs,
    what,
  );
}

async function untilReverted(harness: ControlPlaneHarness, limitMs = 10_000) {
  await harness.clock.until(() => readyReason(harness) === "Reverted", limitMs, "it is reverted");
}

const findImage = (harness: ControlPlaneHarness, image: string) => {
  const container = harness.listContainers("web").find(({ spec }) => spec.image === image);
  if (!container) throw new Error(`there is no container of ${image}`);
  return container;
};

describe("after the switch to a new version", () => {
  test("both versions run for five seconds, and then the new one is Ready", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    const target = { name: "web", uid: harness.app("web")?.metadata.uid ?? "", generation: 2 };
    const assess = () => assessApp(harness.app("web"), { ...target, until: "ready" });
    await harness.clock.advance(4_500);
    expect(runningImages(harness)).toEqual(["web:1", "web:2"]);
    expect(harness.condition("web", "Ready")).toMatchObject({
      status: "False",
      reason: "Observing",
    });
    expect(harness.condition("web", "Progressing")).toMatchObject({
      status: "True",
      reason: "Observing",
    });
    expect(assess()).toBeUndefined();
    await harness.clock.advance(600);
    expect(assess()).toEqual({ type: "ready" });
    expect(harness.condition("web", "Progressing")?.reason).toBe("Complete");
  });

  test("rollout.observe sets the length of the observation window, and 0s turns the window off", async () => {
    await using harness = await serving({ ...web, rollout: { observe: "1m" } });
    harness.apply("web", { ...web, image: "web:2", rollout: { observe: "1m" } });
    await harness.clock.advance(55_000);
    expect(readyReason(harness)).toBe("Observing");
    expect(runningImages(harness)).toEqual(["web:1", "web:2"]);
    await harness.waitUntilReady("web", 10_000);
    harness.apply("web", { ...web, image: "web:3", rollout: { observe: "0s" } });
    await harness.waitUntilReady("web", 1_000);
  });

  test("the observation window may be longer than the progress deadline, and Berth does not reconcile in a loop meanwhile", async () => {
    const rollout = { observe: "1m", progressDeadline: "5s" };
    await using harness = await serving({ ...web, rollout });
    harness.apply("web", { ...web, image: "web:2", rollout });
    await untilServed(harness, "web:2");
    const before = harness.runtime.calls.byName.get("listContainers") ?? 0;
    await harness.waitUntilReady("web", 65_000);
    expect((harness.runtime.calls.byName.get("listContainers") ?? 0) - before).toBeLessThan(60);
  });

  test("if the new version exits, requests go to the previous version at once, and the new one is quarantined", async () => {
    await using harness = await serving();
    const before = harness.listContainers("web").map(({ id }) => id);
    const targets: number[] = [];
    if (harness.routes)
      harness.routes.faults = { before: (change) => void targets.push(change.targets.length) };
    harness.apply("web", { ...web, image: "brief:1" });
    await untilServed(harness, "brief:1");
    await harness.clock.until(
      () => !runningImages(harness).includes("brief:1"),
      10_000,
      "it exits",
    );
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    await untilReverted(harness);
    const message = harness.condition("web", "Ready")?.message ?? "";
    for (const part of [
      "exit code 3",
      "after traffic was switched to the version",
      "no module named wsgi",
    ])
      expect(message).toContain(part);
    expect(revisionStates(harness)).toEqual(["quarantined", "stable"]);
    await harness.clock.advance(60_000);
    // The requests are switched to the new version and back, and the app is never without a target.
    expect(targets).toEqual([1, 1]);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
    expect(harness.listContainers("web").map(({ id }) => id)).toEqual(before);
    expect(harness.app("web")?.status?.memory.window).toBeNull();
    const starts = harness.store.events.list({ kind: "App", name: "web", limit: 100 });
    expect(starts.filter(({ reason }) => reason === "Restarting")).toEqual([]);
  });

  test("if another program restarts the new version's container, requests go to the previous version", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    await harness.clock.advance(1_000);
    const { id } = findImage(harness, "web:2");
    harness.engine.deliverEvents = false;
    harness.engine.kill(id, 0);
    harness.engine.start(id);
    harness.engine.deliverEvents = true;
    harness.manager.apps.enqueue("web");
    await untilReverted(harness);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
    expect(harness.condition("web", "Ready")?.message).toContain("restarted");
  });

  test("if the new version fails its health check, requests go to the previous version within a second", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    await harness.clock.advance(3_000);
    harness.engine.makeUnhealthy(findImage(harness, "web:2").id);
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    await untilReverted(harness);
    expect(harness.condition("web", "Ready")?.message).toContain("connection refused");
  });

  test("a version whose last probe failed when the observation window ends is not Ready yet", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2", healthCheck: { retries: 5 } });
    await untilServed(harness, "web:2");
    await harness.clock.advance(4_600);
    harness.engine.makeUnhealthy(findImage(harness, "web:2").id);
    await untilReverted(harness, 2_000);
    expect(readyReason(harness)).toBe("Reverted");
  });

  test("if a later version fails in its observation window, requests go back to the version before it, not to an older stable one", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await harness.waitUntilReady("web");
    harness.apply("web", { ...web, image: "brief:1" });
    await untilReverted(harness);
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
  });

  test("the previous version is restarted if it exits before the observation window ends", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    harness.engine.kill(findImage(harness, "web:1").id, 1);
    await harness.clock.advance(2_000);
    expect(runningImages(harness)).toEqual(["web:1", "web:2"]);
  });

  test("a container that is removed by hand is created again, and the previous version serves meanwhile", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "slow:1" });
    await untilServed(harness, "slow:1");
    harness.engine.remove(findImage(harness, "slow:1").id);
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    await untilServed(harness, "slow:1");
    await harness.waitUntilReady("web");
    expect(harness.isReady("web")).toBe(true);
  });

  test("without autoRevert the previous version serves, and the new one is Stalled even if it becomes healthy again", async () => {
    const spec: AppSpec = { ...web, rollout: { autoRevert: false } };
    await using harness = await serving(spec);
    harness.apply("web", { ...spec, image: "web:2" });
    await untilServed(harness, "web:2");
    const container = findImage(harness, "web:2");
    container.unhealthy = true;
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "ObservationFailed" });
    container.unhealthy = false;
    await harness.clock.advance(60_000);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
    harness.retry("web");
    await harness.waitUntilReady("web");
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
  });

  test("a restart of the engine does not count as a failure of the version", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    harness.engine.restart();
    await harness.waitUntilReady("web");
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
    expect(revisionStates(harness)).toEqual(["attempted", "stable"]);
  });

  test("if a version exits in its observation window while a newer version starts, requests go back to the version before both", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "brief:1" });
    await untilServed(harness, "brief:1");
    harness.apply("web", { ...web, image: "slow:1" });
    await harness.clock.until(
      () => !runningImages(harness).includes("brief:1"),
      10_000,
      "it exits",
    );
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    await untilServed(harness, "slow:1");
    await harness.waitUntilReady("web");
    await harness.clock.advance(30_000);
    expect(runningImages(harness)).toEqual(["slow:1"]);
  });

  test("an app that the user stops in the observation window starts again with the new version", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    harness.apply("web", { ...web, image: "web:2", running: false });
    await harness.waitForPhase("web", "stopped");
    harness.apply("web", { ...web, image: "web:2" });
    await harness.waitUntilReady("web", 1_000);
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
  });
});

describe("a kill of Berth in the observation window of a version", () => {
  test("changes neither the length of the window nor the previous version to which requests can return", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    await harness.clock.advance(2_000);
    await harness.kill();
    harness.boot();
    await harness.clock.advance(2_500);
    expect(readyReason(harness)).toBe("Observing");
    expect(runningImages(harness)).toEqual(["web:1", "web:2"]);
    await harness.waitUntilReady("web", 1_000);
  });

  test("does not prevent the revert to the previous version if the new version exits meanwhile", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "brief:1" });
    await untilServed(harness, "brief:1");
    await harness.kill();
    await harness.clock.advance(60_000);
    harness.boot();
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    await untilReverted(harness);
    expect(readyReason(harness)).toBe("Reverted");
  });

  test.each(["before", "after"] as const)(
    "does not prevent the switch to the new version, even if it happens %s the change of the route",
    async (when) => {
      await using harness = await serving();
      const { routes } = harness;
      if (!routes) throw new Error("no ingress");
      routes.faults = {
        [when]: () => {
          harness.die();
          throw new Error("killed");
        },
      };
      harness.apply("web", { ...web, image: "web:2" });
      await harness.clock.until(() => harness.isDead, 10_000, "Berth is dead");
      await harness.kill();
      routes.faults = {};
      harness.boot();
      expect(harness.app("web")?.status?.memory.window).toMatchObject({ outcome: "open" });
      await harness.clock.advance(3_000);
      expect(readyReason(harness)).toBe("Observing");
      await harness.waitUntilReady("web", 5_000);
      expect(harness.listServedImages("web")).toEqual(["web:2"]);
    },
  );

  test("between the record of a failure and the change of the route does not prevent the revert", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "brief:1" });
    await untilServed(harness, "brief:1");
    const { routes } = harness;
    if (!routes) throw new Error("no ingress");
    routes.faults = {
      before: ({ targets }) => {
        if (targets.length === 0) return;
        harness.die();
        throw new Error("killed");
      },
    };
    await harness.clock.until(() => harness.isDead, 10_000, "Berth is dead");
    await harness.kill();
    routes.faults = {};
    harness.boot();
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    await untilReverted(harness);
    expect(revisionStates(harness)).toEqual(["quarantined", "stable"]);
  });
});

describe("there is no observation window", () => {
  test("for a first version", async () => {
    await using harness = new ControlPlaneHarness({ images, ingress: "fake" }).boot();
    harness.apply("web", web);
    await harness.waitUntilReady("web", 1_000);
    expect(harness.isReady("web")).toBe(true);
  });

  test("for a restart", async () => {
    await using harness = await serving();
    const [before] = harness.listContainers("web");
    harness.restart("web");
    await harness.clock.until(
      () => harness.listContainers("web").some(({ id }) => id !== before?.id),
      1_000,
      "there is another container",
    );
    await harness.waitUntilReady("web", 1_000);
    expect(harness.isReady("web")).toBe(true);
  });

  test("for a change of replicas", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, replicas: 3 });
    await harness.waitUntilReady("web", 1_000);
    expect(harness.isReady("web")).toBe(true);
  });

  test("for a restart during an observation window, which continues with its previous version", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2" });
    await untilServed(harness, "web:2");
    const first = findImage(harness, "web:2").id;
    harness.restart("web");
    const isOther = () =>
      harness.listContainers("web").some(({ id, spec }) => spec.image === "web:2" && id !== first);
    await harness.clock.until(isOther, 2_000, "there is another container");
    await harness.clock.advance(1_000);
    const [second] = running(harness).filter((it) => it.spec.image === "web:2" && it.id !== first);
    harness.engine.kill(second?.id ?? "", 1);
    await untilServed(harness, "web:1", BACK_LIMIT_MS);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
  });
});

const ingressModes = ["fake", "off"] as const;

describe.each(ingressModes)("with the strategy recreate (ingress %s)", (ingress) => {
  test("a new version is Ready after its observation window", async () => {
    await using harness = await serving(recreated, ingress);
    harness.apply("web", { ...recreated, image: "web:2" });
    await harness.clock.until(() => readyReason(harness) === "Observing", 5_000, "it is observed");
    await harness.clock.advance(4_500);
    expect(readyReason(harness)).toBe("Observing");
    await harness.waitUntilReady("web", 1_000);
    expect(runningImages(harness)).toEqual(["web:2"]);
  });

  test("a new version that fails in its observation window is replaced by the old version", async () => {
    await using harness = await serving(recreated, ingress);
    harness.apply("web", { ...recreated, image: "brief:1" });
    await untilReverted(harness);
    await harness.clock.until(
      () => runningImages(harness).join() === "web:1",
      BACK_LIMIT_MS,
      "the old version runs",
    );
    expect(harness.condition("web", "Ready")?.message).toContain("exit code 3");
    expect(harness.listContainers("web")).toHaveLength(1);
    const events = harness.store.events.list({ kind: "App", name: "web", limit: 100 });
    expect(events.filter(({ reason }) => reason === "Restarting")).toEqual([]);
    await harness.clock.advance(60_000);
    expect(runningImages(harness)).toEqual(["web:1"]);
  });

  test("a kill of Berth before the new version is healthy prevents neither the observation window nor the revert", async () => {
    await using harness = await serving(recreated, ingress);
    harness.apply("web", { ...recreated, image: "slow:1" });
    await harness.clock.until(() => runningImages(harness).join() === "slow:1", 5_000, "it runs");
    await harness.kill();
    harness.boot();
    await harness.clock.until(() => readyReason(harness) === "Observing", 9_000, "it is observed");
    harness.engine.kill(findImage(harness, "slow:1").id, 1);
    await untilReverted(harness);
    expect(readyReason(harness)).toBe("Reverted");
  });

  test("without autoRevert a new version that exits is restarted", async () => {
    const spec: AppSpec = { ...recreated, rollout: { autoRevert: false } };
    await using harness = await serving(spec, ingress);
    harness.apply("web", { ...spec, image: "web:2" });
    await harness.clock.until(() => readyReason(harness) === "Observing", 5_000, "it is observed");
    harness.engine.kill(findImage(harness, "web:2").id, 1);
    await harness.waitUntilReady("web");
    expect(runningImages(harness)).toEqual(["web:2"]);
  });
});

describe("the previous version after the observation window", () => {
  const spec: AppSpec = { ...web, rollout: { drain: "30s" } };

  async function drained(connections: number | undefined): Promise<ControlPlaneHarness> {
    const harness = await serving(spec);
    findImage(harness, "web:1").connections = connections;
    harness.apply("web", { ...spec, image: "web:2" });
    await harness.waitUntilReady("web");
    return harness;
  }

  test("drains no longer than its open requests need", async () => {
    await using harness = await drained(1);
    await harness.clock.advance(20_000);
    expect(runningImages(harness)).toEqual(["web:1", "web:2"]);
    findImage(harness, "web:1").connections = 0;
    await harness.clock.advance(5_000);
    expect(runningImages(harness)).toEqual(["web:2"]);
  });

  test("is stopped at once if it has no open requests", async () => {
    await using harness = await drained(0);
    await harness.clock.advance(100);
    expect(runningImages(harness)).toEqual(["web:2"]);
  });

  test("drains for at most rollout.drain", async () => {
    await using harness = await drained(1);
    await harness.clock.advance(29_000);
    expect(runningImages(harness)).toEqual(["web:1", "web:2"]);
    await harness.clock.advance(1_500);
    expect(runningImages(harness)).toEqual(["web:2"]);
  });

  test("drains for all of rollout.drain if the engine does not report its connections", async () => {
    await using harness = await drained(undefined);
    await harness.clock.advance(29_000);
    expect(runningImages(harness)).toEqual(["web:1", "web:2"]);
    await harness.clock.advance(1_500);
    expect(runningImages(harness)).toEqual(["web:2"]);
  });
});

describe("before the switch to a new version", () => {
  test("a version must be healthy for minReadySeconds", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2", rollout: { minReadySeconds: 10 } });
    await harness.clock.advance(9_000);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
    await harness.clock.advance(2_000);
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
  });

  test("a failed probe makes the period of minReadySeconds begin again", async () => {
    await using harness = await serving();
    harness.apply("web", { ...web, image: "web:2", rollout: { minReadySeconds: 10 } });
    await harness.clock.advance(8_000);
    const container = findImage(harness, "web:2");
    container.unhealthy = true;
    await harness.clock.advance(1_500);
    container.unhealthy = false;
    await harness.clock.advance(8_000);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
    await untilServed(harness, "web:2");
  });

  test("an app with a domain must answer GET / with a status below 500", async () => {
    const spec: AppSpec = { ...web, domain: "web.test" };
    await using harness = await serving(spec);
    harness.apply("web", { ...spec, image: "warms-up:1" });
    await harness.clock.advance(3_500);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
    expect(harness.condition("web", "Ready")?.message).toContain("GET / answered 503");
    await untilServed(harness, "warms-up:1", 2_000);
  });

  test("an app whose GET / fails for its whole deadline is reverted", async () => {
    const spec: AppSpec = { ...web, domain: "web.test", rollout: { progressDeadline: "3s" } };
    await using harness = await serving(spec);
    harness.apply("web", { ...spec, image: "warms-up:1" });
    await untilReverted(harness);
    expect(harness.condition("web", "Ready")?.message).toContain("GET / answered 503");
  });

  test("a port that answers with another protocol than HTTP, or not at all, counts as open", async () => {
    const spec: AppSpec = { ...web, domain: "web.test" };
    await using harness = await serving(spec);
    harness.apply("web", { ...spec, image: "smtp:1" });
    await untilServed(harness, "smtp:1", 1_000);
    harness.apply("web", { ...spec, image: "silent:1" });
    await untilServed(harness, "silent:1", 5_000);
    await harness.waitUntilReady("web");
    expect(harness.isReady("web")).toBe(true);
  });

  test.each<[string, AppSpec]>([
    ["without a domain", web],
    ["with a command", { ...web, domain: "web.test", healthCheck: { command: ["true"] } }],
  ])("Berth sends no HTTP request to an app %s", async (_, spec) => {
    await using harness = new ControlPlaneHarness({ images, ingress: "fake" });
    const probes = new Set<string>();
    harness.boot({
      beforeCall: ({ name, args }) => {
        if (name === "probe") probes.add(JSON.stringify(args[1]));
      },
    });
    harness.apply("web", spec);
    await harness.waitUntilReady("web");
    harness.apply("web", { ...spec, image: "web:2" });
    await harness.waitUntilReady("web");
    expect([...probes].filter((probe) => /http|web/.test(probe))).toEqual([]);
  });

  test("a container that already serves requests is not probed over HTTP, even if a domain is added to its app", async () => {
    await using harness = await serving({ ...web, image: "warms-up:1" });
    harness.apply("web", { ...web, image: "warms-up:1", domain: "web.test" });
    findImage(harness, "warms-up:1").unhealthy = false;
    const probes: string[] = [];
    harness.runtime.faults = {
      beforeCall: ({ name, args }) => {
        if (name === "probe") probes.push(JSON.stringify(args[1]));
      },
    };
    await harness.clock.advance(120_000);
    expect(harness.isReady("web")).toBe(true);
    expect(probes.filter((probe) => probe.includes("web"))).toEqual([]);
  });
});
