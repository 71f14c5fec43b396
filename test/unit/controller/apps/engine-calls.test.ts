import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import type { CallName } from "../../../support/fake-runtime.ts";

/**
 * The number of calls to the engine that one change of an app takes. Each call costs CPU time of Berth and of the
 * engine, mostly while containers start, so an additional one needs a reason.
 */

const web = { image: "web:1", port: 80, rollout: { observe: "5s", drain: "1s" } } as const;

/** Runs `change`, waits for `end`, and counts the engine calls that Berth made meanwhile, except periodic calls. */
async function countCalls(
  harness: ControlPlaneHarness,
  change: () => void,
  end: () => Promise<void>,
): Promise<Partial<Record<CallName, number>>> {
  harness.runtime.resetCalls();
  change();
  await end();
  const periodic = new Set<CallName>(["createLease", "listLeases", "removeLease", "probe"]);
  return Object.fromEntries(
    [...harness.runtime.calls.byName].filter(([name]) => !periodic.has(name)),
  );
}

/** Boots Berth with one app, and waits until the engine calls that Berth makes once after each start have ended. */
async function boot(options: ConstructorParameters<typeof ControlPlaneHarness>[0] = {}) {
  const harness = new ControlPlaneHarness({ ingress: "fake", ...options }).boot();
  harness.apply("other", web);
  await harness.waitUntilReady("other");
  await harness.clock.advance(15_000);
  return harness;
}

test.each(["fake", "off"] as const)(
  "for a new app, Berth lists the containers before the creation, after the start, and when the app is healthy (ingress %s)",
  async (ingress) => {
    await using harness = await boot({ ingress });
    const create = () => harness.apply("web", web);
    expect(await countCalls(harness, create, () => harness.waitUntilReady("web"))).toEqual({
      inspectImage: 1,
      listContainers: 3,
      ensureNetwork: 1,
      createContainer: 1,
      startContainer: 1,
    });
  },
);

test.each([
  [500, 3],
  [1_500, 4],
])(
  "while an app starts that is healthy after %i ms, Berth lists its containers %i times: once more if the start takes over a second",
  async (readyAfterMs, listContainers) => {
    await using harness = await boot({ images: { "web:1": { readyAfterMs } } });
    const create = () => harness.apply("web", web);
    expect(await countCalls(harness, create, () => harness.waitUntilReady("web"))).toMatchObject({
      listContainers,
    });
  },
);

test("the condition Available of an app that does not become healthy is False after a second", async () => {
  const images = { "web:1": {}, "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY } };
  await using harness = await boot({ images });
  harness.apply("web", { ...web, image: "sick:1" });
  await harness.clock.advance(1_200);
  expect(harness.condition("web", "Available")).toMatchObject({ status: "False" });
  expect(harness.app("web")?.status?.containers).toMatchObject([{ healthy: false }]);
});

test("for a new version, Berth lists the containers before the creation, after the start, and when the version is healthy", async () => {
  await using harness = await boot();
  const deploy = () => harness.apply("other", { ...web, image: "web:2" });
  const served = () =>
    harness.clock.until(
      () => harness.listServedImages("other").includes("web:2"),
      10_000,
      "the new version serves",
    );
  expect(await countCalls(harness, deploy, served)).toEqual({
    inspectImage: 1,
    listContainers: 3,
    ensureNetwork: 1,
    createContainer: 1,
    startContainer: 1,
  });
});

test("a container that exits after a reconcile has listed the containers is restarted by the next reconcile", async () => {
  await using harness = await boot();
  const [container] = harness.listContainers("other");
  const id = container?.id ?? "";
  let lists = 0;
  harness.runtime.faults = {
    // The container exits after the engine has listed it as running, and before the reconcile receives the list.
    afterCall: ({ name }) => {
      if (name !== "listContainers") return;
      lists += 1;
      if (lists === 1) harness.engine.kill(id, 1);
    },
  };
  harness.manager.apps.enqueue("other");
  await harness.clock.advance(5_000);
  expect(harness.listContainers("other")[0]?.state).toBe("running");
  expect(harness.app("other")?.status?.restarts).toBe(1);
});
