import { execFileSync } from "node:child_process";
import { describe, expect, it, onTestFinished } from "vitest";
import type { DeliveryRecord, Store } from "../../../src/store/store.ts";
import { DELIVERIES_KEPT_MAX, WEBHOOKS_MAX } from "../../../src/store/webhooks.ts";
import { openTestStore, type TestStore } from "../../support/test-store.ts";

const SECRET = "tangerine-umbrella-vortex-44b1";
const input = { url: "https://a.example/", events: [], apps: [], secret: SECRET } as const;

function open(): TestStore {
  const harness = openTestStore();
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

function enqueue(store: Store, webhook: string, id: string): DeliveryRecord {
  return store.webhooks.enqueue({ id, webhook, event: "deployed", app: "web", payload: `"${id}"` });
}

function filesHolding(directory: string, text: string): string {
  try {
    return execFileSync("grep", ["-rlaF", "--", text, directory], { encoding: "utf8" });
  } catch {
    return "";
  }
}

describe("webhooks in the store", () => {
  it("store their secret sealed", async () => {
    const harness = open();
    const made = harness.store.webhooks.create({ ...input, events: ["failed"], apps: ["web"] });
    expect(made).toEqual({
      id: expect.stringMatching(/^wh_[0-9a-f]{16}$/),
      url: "https://a.example/",
      events: ["failed"],
      apps: ["web"],
      createdAt: "2030-01-01T00:00:00.000Z",
    });
    expect(filesHolding(harness.dataDir, SECRET)).toBe("");
    const store = await harness.reopen();
    expect(store.webhooks.list()).toEqual([made]);
    expect(store.webhooks.get(made.id)).toEqual(made);
    expect(store.webhooks.getSecret(made.id)).toBe(SECRET);
    expect(filesHolding(harness.dataDir, SECRET)).toBe("");
    expect(store.webhooks.remove(made.id)).toBe(true);
    expect(store.webhooks.remove(made.id)).toBe(false);
    expect(store.webhooks.getSecret(made.id)).toBeUndefined();
  });

  it("are limited in number", () => {
    const { store } = open();
    for (let count = 0; count < WEBHOOKS_MAX; count += 1) store.webhooks.create(input);
    expect(() => store.webhooks.create(input)).toThrow(
      expect.objectContaining({ code: "conflict", message: expect.stringContaining("50") }),
    );
  });
});

describe("deliveries of webhooks in the store", () => {
  it("are pending in the order in which they were enqueued, and are removed with their webhook", () => {
    const { store } = open();
    const [a, b] = [store.webhooks.create(input), store.webhooks.create(input)];
    for (const [hook, id] of [
      [a, "1"],
      [b, "2"],
      [a, "3"],
    ] as const)
      enqueue(store, hook.id, id);
    expect(store.webhooks.listPending().map(({ id }) => id)).toEqual(["1", "2", "3"]);
    expect(store.webhooks.listDeliveries(a.id, 10).map(({ id }) => id)).toEqual(["3", "1"]);
    expect(store.webhooks.getPayload("2")).toBe('"2"');
    store.webhooks.remove(a.id);
    expect(store.webhooks.listPending().map(({ id }) => id)).toEqual(["2"]);
    expect(store.webhooks.getDelivery("1")).toBeUndefined();
  });

  it("record each attempt", async () => {
    const { store, clock } = open();
    const { id: webhook } = store.webhooks.create(input);
    enqueue(store, webhook, "1");
    const later = clock.now() + 10_000;
    store.webhooks.recordAttempt("1", {
      state: "pending",
      nextAtMs: later,
      status: 500,
      message: "answered 500",
    });
    expect(store.webhooks.getDelivery("1")).toMatchObject({
      state: "pending",
      attempts: 1,
      nextAtMs: later,
      status: 500,
      finishedAt: null,
    });
    await clock.advance(1_000);
    const outcome = { nextAtMs: null, status: 200, message: "answered 200" };
    store.webhooks.recordAttempt("1", { state: "delivered", ...outcome });
    expect(store.webhooks.getDelivery("1")).toMatchObject({
      attempts: 2,
      finishedAt: "2030-01-01T00:00:01.000Z",
    });
    expect(store.webhooks.listPending()).toEqual([]);
    expect(store.webhooks.requeue("1")).toBe(true);
    expect(store.webhooks.listPending()).toMatchObject([
      { id: "1", attempts: 0, finishedAt: null },
    ]);
    expect(store.webhooks.requeue("2")).toBe(false);
  });

  it("are limited for each webhook: sent ones are removed first, then the oldest pending ones", () => {
    const { store } = open();
    const [a, b] = [store.webhooks.create(input), store.webhooks.create(input)];
    enqueue(store, b.id, "other");
    const outcome = { state: "delivered", nextAtMs: null, status: 200, message: "ok" } as const;
    enqueue(store, a.id, "waits");
    for (let count = 1; count <= DELIVERIES_KEPT_MAX; count += 1) {
      enqueue(store, a.id, `sent-${count}`);
      store.webhooks.recordAttempt(`sent-${count}`, outcome);
    }
    const kept = store.webhooks.listDeliveries(a.id, 1000).map(({ id }) => id);
    expect(kept).toHaveLength(DELIVERIES_KEPT_MAX);
    expect(kept).toContain("waits");
    expect(kept).not.toContain("sent-1");
    for (let count = 1; count <= DELIVERIES_KEPT_MAX; count += 1)
      enqueue(store, a.id, `late-${count}`);
    const late = store.webhooks.listDeliveries(a.id, 1000).map(({ id }) => id);
    expect(late).toHaveLength(DELIVERIES_KEPT_MAX);
    expect(late).not.toContain("waits");
    expect(late.at(-1)).toBe("late-1");
    expect(store.webhooks.listDeliveries(b.id, 10)).toHaveLength(1);
  });
});
