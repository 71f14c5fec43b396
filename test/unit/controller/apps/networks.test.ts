import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };

/** Stops an App, and then removes all networks that no running container uses. */
async function stoppedAndPruned(): Promise<ControlPlaneHarness> {
  const harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { ...web, running: false });
  await harness.waitForPhase("web", "stopped");
  await harness.clock.advance(60_000);
  harness.engine.pruneNetworks();
  return harness;
}

const saidOf = (harness: ControlPlaneHarness) =>
  harness.store.events.list({ kind: "App", name: "web", limit: 100 }).map(({ reason }) => reason);

test("a stopped app whose network was pruned starts again in the same container", async () => {
  await using harness = await stoppedAndPruned();
  const [before] = harness.listContainers("web");
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  expect(harness.listContainers("web").map(({ id }) => id)).toEqual([before?.id]);
  expect(harness.app("web")?.status?.restarts).toBe(0);
  expect(saidOf(harness)).not.toContain("Restarting");
  expect(harness.listServedImages("web")).toEqual(["web:1"]);
});

test("a container joins the network that another app created after a prune", async () => {
  await using harness = await stoppedAndPruned();
  harness.apply("other", web);
  await harness.waitUntilReady("other");
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  expect(harness.app("web")?.status?.restarts).toBe(0);
});

test("if a prune removes the network of an exited container, the container starts again on a new network with that name", async () => {
  await using harness = new ControlPlaneHarness({ ingress: "fake" }).boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const [container] = harness.listContainers("web");
  harness.engine.kill(container?.id ?? "", 1);
  harness.engine.pruneNetworks();
  await harness.clock.advance(30_000);
  expect(harness.isReady("web")).toBe(true);
  expect(harness.app("web")?.status?.restarts).toBe(1);
});
