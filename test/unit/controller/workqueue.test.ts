import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BACKOFF_MAX_MS, reconcileBackoffMs } from "../../../src/controller/reconcile-backoff.ts";
import { WorkQueue } from "../../../src/controller/workqueue.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/** Takes the key that is due now from the queue, and returns it. Returns undefined if no key is due. */
async function takeNow(queue: WorkQueue, clock: VirtualClock): Promise<string | undefined> {
  let taken: string | undefined;
  void queue.take().then((key) => {
    taken = key;
  });
  await clock.settle();
  return taken;
}

describe("WorkQueue", () => {
  test("merges any number of additions before a run into one run", async () => {
    const clock = new VirtualClock();
    const queue = new WorkQueue(clock);
    for (let i = 0; i < 100; i += 1) queue.add("a", "event");
    expect(await takeNow(queue, clock)).toBe("a");
    expect(queue.depth).toEqual({ waiting: 0, processing: 1, delayed: 0 });
    queue.done("a");
    expect(await takeNow(queue, clock)).toBeUndefined();
  });

  test("takeHints() prevents another run of a key if all additions during its current run were marked as hints", async () => {
    const clock = new VirtualClock();
    const queue = new WorkQueue(clock);
    queue.add("a", "event", true);
    expect(queue.takeHints("a")).toBe(true);
    expect(await takeNow(queue, clock)).toBe("a");
    expect(queue.takeHints("a")).toBe(false);
    queue.add("a", "event", true);
    queue.add("a", "event", true);
    expect(queue.takeHints("a")).toBe(true);
    expect(queue.depth).toEqual({ waiting: 0, processing: 1, delayed: 0 });
    queue.done("a");
    expect(await takeNow(queue, clock)).toBeUndefined();
  });

  test.each([
    ["before", [false, true]],
    ["after", [true, false]],
  ] as const)(
    "takeHints() does not prevent another run of a key if an addition that was not a hint came %s the hint",
    async (_, order) => {
      const clock = new VirtualClock();
      const queue = new WorkQueue(clock);
      queue.add("a", "event");
      expect(await takeNow(queue, clock)).toBe("a");
      for (const isHint of order) queue.add("a", "event", isHint);
      expect(queue.takeHints("a")).toBe(true);
      queue.done("a");
      expect(await takeNow(queue, clock)).toBe("a");
    },
  );

  test("if a key is added during its run, the key runs once more afterwards, and never on two workers", async () => {
    const clock = new VirtualClock();
    const queue = new WorkQueue(clock);
    queue.add("a", "event");
    expect(await takeNow(queue, clock)).toBe("a");
    const taken: string[] = [];
    void queue.take().then((key) => taken.push(key ?? ""));
    queue.add("a", "event");
    queue.add("a", "spec");
    await clock.settle();
    expect(taken).toEqual([]);
    queue.done("a");
    await clock.settle();
    expect(taken).toEqual(["a"]);
  });

  test("prefers a user's action, then spec changes, then events, then the resync", async () => {
    const clock = new VirtualClock();
    const queue = new WorkQueue(clock);
    queue.add("resync", "resync");
    queue.add("event", "event");
    queue.add("spec", "spec");
    queue.add("user", "user");
    const order = [];
    for (let i = 0; i < 4; i += 1) order.push(await takeNow(queue, clock));
    expect(order).toEqual(["user", "spec", "event", "resync"]);
  });

  test("prefers a key that has waited long enough to newer keys of higher priority", async () => {
    const clock = new VirtualClock();
    const queue = new WorkQueue(clock);
    queue.add("old", "resync");
    await clock.advance(6_001);
    queue.add("new", "user");
    expect(await takeNow(queue, clock)).toBe("old");
  });

  test("replaces the delay of a key at the next addAfter(), and cancels the delay when a worker takes the key", async () => {
    const clock = new VirtualClock();
    const queue = new WorkQueue(clock);
    queue.addAfter("a", 60_000, "event");
    queue.addAfter("a", 1_000, "event");
    await clock.advance(1_000);
    expect(await takeNow(queue, clock)).toBe("a");
    queue.addAfter("a", 5_000, "event");
    queue.done("a");
    queue.add("a", "user");
    expect(await takeNow(queue, clock)).toBe("a");
    queue.done("a");
    await clock.advance(10_000);
    expect(queue.depth).toEqual({ waiting: 0, processing: 0, delayed: 0 });
  });

  test("resolves every waiting worker with undefined when it is closed", async () => {
    const clock = new VirtualClock();
    const queue = new WorkQueue(clock);
    const results = [queue.take(), queue.take()];
    queue.close();
    expect(await Promise.all(results)).toEqual([undefined, undefined]);
    queue.add("late", "user");
    expect(await queue.take()).toBeUndefined();
  });
});

describe("backoffMs", () => {
  test("doubles from 250 ms, varied by the jitter only, and is never above the cap", () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.double({ min: 0, max: 1, noNaN: true }), (failures, random) => {
        const full = Math.min(250 * 2 ** Math.min(failures, 30), BACKOFF_MAX_MS);
        const delayMs = reconcileBackoffMs(failures, () => random);
        expect(delayMs).toBeGreaterThanOrEqual(Math.floor(full * 0.8));
        expect(delayMs).toBeLessThanOrEqual(full);
      }),
    );
  });
});
