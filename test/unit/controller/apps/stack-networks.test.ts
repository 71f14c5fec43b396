import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { STACK_LABEL } from "../../../../src/resources/stack.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { applyResource } from "../../../support/test-store.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const BLOG = "berth--0123abcd-blog";
const SHOP = "berth--0123abcd-shop";

function applyInStack(
  harness: ControlPlaneHarness,
  name: string,
  stack: string,
  spec: AppSpec = web,
) {
  const labels = { [STACK_LABEL]: stack };
  // The option takeOver is needed because the App may already belong to another stack.
  applyResource(harness.store, "App", name, spec, { labels, takeOver: true });
}

/** Returns the aliases of the App's containers on each of their networks. */
function listNetworks(harness: ControlPlaneHarness, app: string) {
  return harness
    .listContainers(app)
    .map(({ networks }) =>
      Object.fromEntries([...networks].map(([name, { aliases }]) => [name, aliases])),
    );
}

test("an app of a stack has the name of its service and its aliases in the network of the stack", async () => {
  await using harness = new ControlPlaneHarness().boot();
  applyInStack(harness, "blog-db", "blog", { ...web, aliases: ["postgres", "db"] });
  await harness.waitUntilReady("blog-db");
  expect(listNetworks(harness, "blog-db")).toEqual([
    { "berth-0123abcd": ["blog-db"], [BLOG]: ["blog-db", "db", "postgres"] },
  ]);
  expect(harness.engine.networks.get(BLOG)).toEqual({
    "dev.berth.instance": "0123abcd",
    "dev.berth.stack": "blog",
  });
});

test("two stacks with the same service names have separate networks", async () => {
  await using harness = new ControlPlaneHarness().boot();
  for (const stack of ["blog", "shop"]) applyInStack(harness, `${stack}-db`, stack);
  await harness.waitUntilReady("blog-db");
  await harness.waitUntilReady("shop-db");
  expect(Object.keys(listNetworks(harness, "blog-db")[0] ?? {})).toEqual(["berth-0123abcd", BLOG]);
  expect(Object.keys(listNetworks(harness, "shop-db")[0] ?? {})).toEqual(["berth-0123abcd", SHOP]);
});

test("the network of a stack is removed with the last app of the stack", async () => {
  await using harness = new ControlPlaneHarness().boot();
  for (const name of ["blog-db", "blog-web"]) applyInStack(harness, name, "blog");
  harness.apply("other", web);
  for (const name of ["blog-db", "blog-web", "other"]) await harness.waitUntilReady(name);
  const remove = async (name: string) => {
    harness.store.delete("App", name, { manager: "api", actor: { name: "test", scope: "admin" } });
    await harness.clock.until(() => !harness.app(name), 60_000, `${name} is gone`);
  };
  await remove("blog-db");
  expect(harness.engine.networks.has(BLOG)).toBe(true);
  await remove("blog-web");
  expect([...harness.engine.networks.keys()]).toEqual(["berth-0123abcd"]);
});

test("an app that moves to another stack gets new containers in the network of that stack", async () => {
  await using harness = new ControlPlaneHarness().boot();
  applyInStack(harness, "blog-shop-db", "blog");
  await harness.waitUntilReady("blog-shop-db");
  const { generation } = harness.app("blog-shop-db")?.metadata ?? { generation: 0 };
  applyInStack(harness, "blog-shop-db", "blog-shop");
  expect(harness.app("blog-shop-db")?.metadata.generation).toBe(generation + 1);
  await harness.waitUntilReady("blog-shop-db");
  await harness.clock.advance(60_000);
  expect(listNetworks(harness, "blog-shop-db").map((networks) => Object.keys(networks))).toEqual([
    ["berth-0123abcd", "berth--0123abcd-blog-shop"],
  ]);
});

test("a container that was disconnected from the network of its stack is connected again", async () => {
  await using harness = new ControlPlaneHarness().boot();
  applyInStack(harness, "blog-db", "blog");
  await harness.waitUntilReady("blog-db");
  const [container] = harness.listContainers("blog-db");
  harness.engine.disconnect(container?.id ?? "", BLOG);
  await harness.clock.until(
    () => BLOG in (listNetworks(harness, "blog-db")[0] ?? {}),
    120_000,
    "the container is in the network of its stack",
  );
  expect(harness.listContainers("blog-db").map(({ id }) => id)).toEqual([container?.id]);
  const events = harness.store.events.list({ kind: "App", name: "blog-db", limit: 100 });
  expect(events.map(({ reason }) => reason)).toContain("DriftCorrected");
});

test("if Berth is killed before it connects a new container to the network of its stack, the next Berth does", async () => {
  await using harness = new ControlPlaneHarness();
  harness.boot({
    beforeCall: (call) => {
      if (call.name === "connectNetwork") harness.die();
    },
  });
  applyInStack(harness, "blog-db", "blog");
  await harness.clock.until(() => harness.isDead, 60_000, "Berth was killed");
  await harness.kill();
  const [container] = harness.listContainers("blog-db");
  expect(Object.keys(listNetworks(harness, "blog-db")[0] ?? {})).toEqual(["berth-0123abcd"]);
  harness.boot();
  await harness.waitUntilReady("blog-db");
  expect(harness.listContainers("blog-db").map(({ id }) => id)).toEqual([container?.id]);
  expect(Object.keys(listNetworks(harness, "blog-db")[0] ?? {})).toEqual(["berth-0123abcd", BLOG]);
  const events = harness.store.events.list({ kind: "App", name: "blog-db", limit: 100 });
  expect(events.map(({ reason }) => reason)).not.toContain("DriftCorrected");
});
