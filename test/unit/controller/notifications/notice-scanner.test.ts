import { expect, it, onTestFinished } from "vitest";
import { silentLogger } from "../../../../src/base/logger.ts";
import { WebhookSender } from "../../../../src/controller/notifications/webhook-sender.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import type { WebhookEvent } from "../../../../src/resources/webhook-events.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web: AppSpec = { image: "web:1", port: 80 };
const bad = { exits: { afterMs: 10, code: 1 } } as const;

/** The whole control plane on an in-memory engine, with a webhook sender whose receivers never answer. */
class NoticeHarness {
  readonly harness = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": {}, "bad:1": bad },
  });
  #sender: WebhookSender | undefined;

  constructor() {
    onTestFinished(async () => {
      await this.#sender?.[Symbol.asyncDispose]();
      await this.harness[Symbol.asyncDispose]();
    });
  }

  boot(): this {
    this.harness.boot();
    this.#sender = new WebhookSender({
      store: this.harness.store,
      clock: this.harness.clock,
      logger: silentLogger,
      version: "1",
      random: () => 0,
    });
    this.#sender.start();
    return this;
  }

  async kill(): Promise<void> {
    await this.#sender?.[Symbol.asyncDispose]();
    await this.harness.kill();
  }

  hook(events: readonly WebhookEvent[] = [], apps: readonly string[] = []): string {
    const url = "http://127.0.0.1:9/";
    return this.harness.store.webhooks.create({ url, events, apps, secret: "secret" }).id;
  }

  payloads(hook: string): Record<string, unknown>[] {
    const { webhooks } = this.harness.store;
    return webhooks
      .listDeliveries(hook, 1000)
      .toReversed()
      .map(({ id }): Record<string, unknown> => JSON.parse(webhooks.getPayload(id) ?? "{}"));
  }

  /** Lists the deliveries as `event app generation`, oldest first. */
  summaries(hook: string): string[] {
    return this.payloads(hook).map(
      ({ event, app, generation }) => `${String(event)} ${String(app)} ${String(generation)}`,
    );
  }
}

it("the notice scanner reports each version once, when the app is Ready", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  expect(told.summaries(hook)).toEqual(["deployed web 1"]);
  expect(told.payloads(hook)[0]).toMatchObject({
    message: "generation 1, revision 1, is running and healthy",
    url: expect.stringMatching(/^http:/),
    instance: harness.store.instanceId,
    time: expect.stringMatching(/^2030-/),
  });
  harness.apply("web", { ...web, replicas: 2 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  harness.apply("web", { ...web, replicas: 2, running: false });
  await harness.waitForPhase("web", "stopped");
  harness.apply("web", { ...web, replicas: 2 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  expect(told.summaries(hook)).toEqual(["deployed web 1"]);
  harness.apply("web", { ...web, image: "web:2" });
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  expect(told.summaries(hook)).toEqual(["deployed web 1", "deployed web 5"]);
});

it("the notice scanner reports a failure once for each generation and reason", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook();
  harness.apply("web", { ...web, image: "bad:1" });
  await harness.waitForPhase("web", "failed");
  await harness.clock.advance(3_600_000);
  expect(told.summaries(hook)).toEqual(["failed web 1"]);
  expect(told.payloads(hook)[0]?.["message"]).toContain("exit code 1");
  harness.retry("web");
  await harness.clock.advance(3_600_000);
  expect(told.summaries(hook)).toEqual(["failed web 1", "failed web 2"]);
});

it("the notice scanner reports a revert as `reverted`; webhooks that subscribe only to `failed` receive it as `failed`", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const [all, failures, deploys] = [told.hook(), told.hook(["failed"]), told.hook(["deployed"])];
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { ...web, image: "bad:1" });
  await harness.clock.until(
    () => harness.condition("web", "Ready")?.reason === "Reverted",
    300_000,
    "it was reverted",
  );
  await harness.clock.advance(60_000);
  expect(told.summaries(all)).toEqual(["deployed web 1", "reverted web 2"]);
  expect(told.payloads(all)[1]?.["message"]).toMatch(/^generation 2 failed .*back to revision 1$/);
  expect(told.summaries(failures)).toEqual(["failed web 2"]);
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  expect(told.summaries(all).slice(2)).toEqual(["deployed web 3"]);
  expect(told.summaries(deploys)).toEqual(["deployed web 1", "deployed web 3"]);
});

it("the notice scanner reports a Ready app that stays unhealthy longer than a restart takes, and its recovery", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook();
  harness.apply("web", { ...web, restart: { attempts: 2, backoff: "1s" } });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  const [container] = harness.listContainers("web");
  harness.engine.kill(container?.id ?? "");
  await harness.clock.advance(1);
  await harness.waitUntilReady("web");
  await harness.clock.advance(60_000);
  expect(told.summaries(hook)).toEqual(["deployed web 1"]);

  harness.engine.setBehaviour("web:1", { healthyAfterMs: Infinity, listensOn: [] });
  for (const { id } of harness.listContainers("web")) harness.engine.remove(id);
  await harness.clock.advance(30_000);
  expect(told.summaries(hook).slice(1, 2)).toEqual(["unhealthy web 1"]);
  await harness.clock.advance(3_600_000);
  expect(told.summaries(hook).filter((text) => text.startsWith("unhealthy"))).toHaveLength(1);
  expect(
    harness.store.events.list({ name: "web", limit: 200 }).map(({ reason }) => reason),
  ).toContain("HealthLost");
  harness.engine.setBehaviour("web:1", {});
  for (const { id } of harness.listContainers("web")) harness.engine.remove(id);
  harness.retry("web");
  await harness.clock.advance(1_000);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  expect(told.summaries(hook).at(-1)).toBe("recovered web 2");
  expect(told.summaries(hook).filter((text) => text.startsWith("recovered"))).toHaveLength(1);
});

it("the notice scanner reports nothing for an app that is stopped, scaled or restarted", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook(["unhealthy", "recovered", "failed"]);
  harness.engine.setBehaviour("web:1", { readyAfterMs: 20_000 });
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { ...web, replicas: 3 });
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.restart("web");
  await harness.waitUntilReady("web");
  harness.apply("web", { ...web, running: false });
  await harness.waitForPhase("web", "stopped");
  await harness.clock.advance(60_000);
  expect(told.summaries(hook)).toEqual([]);
});

it("the notice scanner does not report a Ready app as unhealthy when the user stops it and starts it again", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook(["unhealthy", "recovered", "failed"]);
  harness.engine.setBehaviour("web:1", { readyAfterMs: 20_000 });
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.apply("web", { ...web, running: false });
  await harness.waitForPhase("web", "stopped");
  await harness.clock.advance(60_000);
  harness.apply("web", { ...web, running: true });
  await harness.waitUntilReady("web");
  expect(told.summaries(hook)).toEqual([]);
  const reasons = harness.store.events
    .list({ name: "web", limit: 200 })
    .map(({ reason }) => reason);
  expect(reasons).not.toContain("HealthLost");
});

it("the notice scanner does not report a Ready app as unhealthy while it starts again because the user restarts it", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook(["unhealthy", "recovered", "failed"]);
  harness.engine.setImage("web:1", { readyAfterMs: 20_000 });
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  harness.restart("web");
  await harness.clock.until(() => !harness.isReady("web"), 10_000, "the restart begins");
  await harness.waitUntilReady("web");
  expect(told.summaries(hook)).toEqual([]);
});

it("the notice scanner reports at the next start the events that a kill has left unreported, and no event twice", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  await harness.clock.advance(15_000);
  await told.kill();
  told.boot();
  await harness.clock.advance(60_000);
  expect(told.summaries(hook)).toEqual(["deployed web 1"]);
  // The event is committed to the store, and Berth is killed before the scan.
  harness.store.events.record({
    kind: "App",
    name: "old",
    type: "Normal",
    reason: "Pruned",
    message: "deleted: a.yaml does not declare it any more",
  });
  await told.kill();
  told.boot();
  await harness.clock.advance(1);
  expect(told.summaries(hook)).toEqual(["deployed web 1", "pruned old undefined"]);
  await told.kill();
  told.boot();
  await harness.clock.advance(60_000);
  expect(told.summaries(hook)).toHaveLength(2);
});

it("the notice scanner reports only the apps of the subscription, and nothing from before the subscription", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  harness.apply("early", web);
  await harness.waitUntilReady("early");
  await harness.clock.advance(15_000);
  const hook = told.hook([], ["web"]);
  const all = told.hook();
  harness.apply("web", web);
  harness.apply("other", web);
  await harness.waitUntilReady("web");
  await harness.waitUntilReady("other");
  harness.store.events.record({
    kind: "Secret",
    name: "web",
    type: "Normal",
    reason: "Pruned",
    message: "deleted: b.yaml does not declare it any more",
  });
  await harness.clock.advance(15_000);
  await told.kill();
  told.boot();
  await harness.clock.advance(15_000);
  expect(told.summaries(hook)).toEqual(["deployed web 1"]);
  expect(told.summaries(all).toSorted()).toEqual([
    "deployed other 1",
    "deployed web 1",
    "pruned null undefined",
  ]);
  expect(told.payloads(all).find(({ event }) => event === "pruned")?.["message"]).toBe(
    "Secret web: deleted: b.yaml does not declare it any more",
  );
});

it("the notice scanner forgets a deleted app, and reports a new one of the same name again", async () => {
  const told = new NoticeHarness().boot();
  const { harness } = told;
  const hook = told.hook();
  for (const _ of [1, 2]) {
    harness.apply("web", web);
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
    harness.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
    await harness.clock.until(() => harness.app("web") === undefined, 60_000, "it is gone");
  }
  await harness.clock.advance(1);
  expect(told.summaries(hook)).toEqual(["deployed web 1", "deployed web 1"]);
  expect(harness.store.webhooks.getNotice("web")).toBeUndefined();
});
