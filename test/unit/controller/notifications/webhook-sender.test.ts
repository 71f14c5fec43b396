import { createHmac } from "node:crypto";
import { expect, it, vi } from "vitest";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";
import { WebhookReceiver } from "../../../support/webhook-receiver.ts";
import { SECRET, WebhookHarness } from "./webhook-harness.ts";

it("the webhook sender sends signed JSON with Berth as the user agent", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  const hook = harness.hook(receiver.url);
  const queued = harness.sender.test(hook.id);
  expect(queued).toMatchObject({ state: "pending", attempts: 0, event: "test" });
  const delivery = await harness.attempts(hook, 1);
  expect(delivery).toMatchObject({ state: "delivered", status: 204, nextAtMs: null });
  const [request] = receiver.received;
  expect(request).toMatchObject({ method: "POST", path: "/hook" });
  const signature = createHmac("sha256", SECRET)
    .update(request?.body ?? "")
    .digest("hex");
  expect(request?.headers).toMatchObject({
    "content-type": "application/json",
    "user-agent": "berth/1.2.3",
    "x-berth-event": "test",
    "x-berth-delivery": queued.id,
    "x-berth-signature-256": `sha256=${signature}`,
    "x-hub-signature-256": `sha256=${signature}`,
  });
  expect(receiver.payloads).toEqual([
    {
      id: queued.id,
      event: "test",
      time: "2030-01-01T00:00:00.000Z",
      app: null,
      message: "a user requested this test of the webhook",
      instance: harness.store.instanceId,
    },
  ]);
});

it("the webhook sender tries a delivery six times with growing delays, then fails", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.otherwise = { status: 500, body: "out of\norder \u0007" };
  const hook = harness.hook(receiver.url);
  const { id } = harness.sender.test(hook.id);
  const waits = [10_000, 60_000, 300_000, 1_800_000, 7_200_000];
  for (const [index, waitMs] of waits.entries()) {
    const failed = await harness.attempts(hook, index + 1);
    expect(failed).toMatchObject({ state: "pending", nextAtMs: harness.clock.now() + waitMs });
    expect(failed.message).toBe("answered 500: out of order");
    await harness.clock.advance(waitMs - 1);
    expect(receiver.received).toHaveLength(index + 1);
    await harness.clock.advance(1);
  }
  const last = await harness.attempts(hook, 6);
  expect(last).toMatchObject({ id, state: "failed", nextAtMs: null, status: 500 });
  await harness.clock.advance(24 * 3_600_000);
  expect(receiver.received).toHaveLength(6);
  expect(new Set(receiver.payloads.map((payload) => payload["id"]))).toEqual(new Set([id]));
});

it("the webhook sender waits as long as the receiver requests, up to two hours", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  const date = new Date(harness.clock.now() + 120_000 + 300_000).toUTCString();
  receiver.script.push(
    { status: 429, headers: { "retry-after": "120" } },
    { status: 503, headers: { "retry-after": date } },
    { status: 503, headers: { "retry-after": "999999" } },
    { status: 503, headers: { "retry-after": "soon" } },
  );
  const hook = harness.hook(receiver.url);
  harness.sender.test(hook.id);
  for (const [attempt, waitMs] of [120_000, 300_000, 7_200_000, 1_800_000].entries()) {
    const { nextAtMs } = await harness.attempts(hook, attempt + 1);
    expect((nextAtMs ?? 0) - harness.clock.now()).toBe(waitMs);
    await harness.clock.advance(waitMs);
  }
  expect((await harness.attempts(hook, 5)).state).toBe("delivered");
});

it("the webhook sender gives up a delivery at once after the status 410", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.otherwise = 410;
  const hook = harness.hook(receiver.url);
  harness.sender.test(hook.id);
  expect(await harness.attempts(hook, 1)).toMatchObject({ state: "failed", status: 410 });
  await harness.clock.advance(24 * 3_600_000);
  expect(receiver.received).toHaveLength(1);
});

it("the webhook sender follows no redirect", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  await using other = await WebhookReceiver.start();
  receiver.otherwise = { status: 307, headers: { location: other.url } };
  const hook = harness.hook(receiver.url);
  harness.sender.test(hook.id);
  const { message } = await harness.attempts(hook, 1);
  expect(message).toContain("answered 307: redirects are not followed");
  expect(other.received).toEqual([]);
});

it("the webhook sender waits ten seconds for a receiver, and does not wait for the end of its response body", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.script.push("hang", { status: 200, body: "x".repeat(64 * 1024), endless: true });
  const hook = harness.hook(receiver.url);
  harness.sender.test(hook.id);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(1), WAIT_OPTIONS);
  await harness.clock.advance(9_999);
  expect(harness.deliveries(hook)[0]?.attempts).toBe(0);
  await harness.clock.advance(1);
  expect((await harness.attempts(hook, 1)).message).toBe("no answer within 10 s");
  await harness.clock.advance(10_000);
  expect((await harness.attempts(hook, 2)).state).toBe("delivered");
});

it("the webhook sender reports why a receiver was not reached", async () => {
  await using harness = new WebhookHarness();
  const receiver = await WebhookReceiver.start();
  const { url, port } = receiver;
  receiver.otherwise = "cut";
  const hook = harness.hook(url);
  harness.sender.test(hook.id);
  const cut = await harness.attempts(hook, 1);
  expect(cut.message).toBe(`127.0.0.1:${port} cut the connection before it answered`);
  await receiver[Symbol.asyncDispose]();
  await harness.clock.advance(10_000);
  expect((await harness.attempts(hook, 2)).message).toBe(`nothing listens at 127.0.0.1:${port}`);
  const named = harness.hook("http://nowhere.invalid/");
  harness.sender.test(named.id);
  expect((await harness.attempts(named, 1)).message).toContain("nowhere.invalid");
});

it("the webhook sender delivers to other webhooks while one receiver is slow", async () => {
  await using harness = new WebhookHarness();
  await using slow = await WebhookReceiver.start();
  await using quick = await WebhookReceiver.start();
  slow.otherwise = "hang";
  const slowHook = harness.hook(slow.url);
  const quickHook = harness.hook(quick.url);
  for (let count = 0; count < 5; count += 1) {
    harness.sender.test(slowHook.id);
    harness.sender.test(quickHook.id);
  }
  await vi.waitFor(() => expect(quick.received).toHaveLength(5), WAIT_OPTIONS);
  expect(slow.received).toHaveLength(1);
});

it("the webhook sender keeps the order of deliveries while a receiver is briefly unreachable", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.script.push(503);
  const hook = harness.hook(receiver.url);
  const sent = [harness.sender.test(hook.id)];
  await harness.attempts(hook, 1);
  sent.push(harness.sender.test(hook.id), harness.sender.test(hook.id));
  await harness.clock.advance(9_999);
  expect(receiver.received).toHaveLength(1);
  await harness.clock.advance(1);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(4), WAIT_OPTIONS);
  const ids = receiver.payloads.slice(1).map((payload) => payload["id"]);
  expect(ids).toEqual(sent.map(({ id }) => id));
});

it("the webhook sender sends a test at once, although earlier events are not delivered yet", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.script.push(503);
  const hook = harness.hook(receiver.url);
  const { webhooks } = harness.store;
  webhooks.enqueue({ id: "old", webhook: hook.id, event: "failed", app: null, payload: "{}" });
  webhooks.enqueue({ id: "new", webhook: hook.id, event: "failed", app: null, payload: "{}" });
  harness.sender.redeliver(hook.id, "old");
  await vi.waitFor(() => expect(webhooks.getDelivery("old")?.attempts).toBe(1), WAIT_OPTIONS);
  const { id } = harness.sender.test(hook.id);
  await vi.waitFor(() => expect(webhooks.getDelivery(id)?.state).toBe("delivered"), WAIT_OPTIONS);
  expect(webhooks.getDelivery("new")).toMatchObject({ state: "pending", attempts: 0 });
});

it("the webhook sender sends later deliveries while the receiver keeps failing on an earlier delivery", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.script.push(400, 400, 400);
  const hook = harness.hook(receiver.url);
  const bad = harness.sender.test(hook.id);
  for (const waitMs of [10_000, 60_000]) {
    await vi.waitFor(
      () => expect(harness.deliveries(hook)[0]?.message).toBe("answered 400"),
      WAIT_OPTIONS,
    );
    const before = receiver.received.length;
    await harness.clock.advance(waitMs);
    await vi.waitFor(() => expect(receiver.received).toHaveLength(before + 1), WAIT_OPTIONS);
  }
  await harness.attempts(hook, 3);
  const good = harness.sender.test(hook.id);
  await vi.waitFor(
    () => expect(harness.store.webhooks.getDelivery(good.id)?.state).toBe("delivered"),
    WAIT_OPTIONS,
  );
  expect(harness.store.webhooks.getDelivery(bad.id)).toMatchObject({
    state: "pending",
    attempts: 3,
  });
});

it("the webhook sender repeats a delivery with the same id when the user requests it", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.script.push(410);
  const hook = harness.hook(receiver.url);
  const { id } = harness.sender.test(hook.id);
  await harness.attempts(hook, 1);
  expect(harness.sender.redeliver(hook.id, id)).toMatchObject({ state: "pending", attempts: 0 });
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2), WAIT_OPTIONS);
  expect(receiver.received[1]?.body).toBe(receiver.received[0]?.body);
  expect(() => harness.sender.redeliver(hook.id, "none")).toThrow(/no such delivery/);
  expect(() => harness.sender.redeliver("none", id)).toThrow(/no such webhook/);
  const other = harness.hook(receiver.url);
  expect(() => harness.sender.redeliver(other.id, id)).toThrow(/no such delivery/);
});

it("the webhook sender continues pending deliveries after a restart, each when it is due", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.script.push(500, 500);
  const hook = harness.hook(receiver.url);
  harness.sender.test(hook.id);
  await harness.attempts(hook, 1);
  await harness.clock.advance(10_000);
  await harness.attempts(hook, 2);
  await harness.restart();
  await harness.clock.advance(59_999);
  expect(receiver.received).toHaveLength(2);
  await harness.clock.advance(1);
  expect((await harness.attempts(hook, 3)).state).toBe("delivered");
});

it("the webhook sender ends at once while a receiver does not respond, and sends the delivery again at the next start", async () => {
  await using harness = new WebhookHarness();
  await using receiver = await WebhookReceiver.start();
  receiver.script.push("hang");
  const hook = harness.hook(receiver.url);
  harness.sender.test(hook.id);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(1), WAIT_OPTIONS);
  await harness.restart();
  expect((await harness.attempts(hook, 1)).state).toBe("delivered");
  expect(receiver.received[1]?.body).toBe(receiver.received[0]?.body);
});

it("the webhook sender sends nothing to the metadata addresses of clouds, whatever the host name", async () => {
  await using harness = new WebhookHarness();
  const hook = harness.hook("http://169.254.169.254/latest/meta-data");
  harness.sender.test(hook.id);
  expect((await harness.attempts(hook, 1)).message).toContain("machine's credentials");
});
