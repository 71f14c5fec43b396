import { describe, expect, it, onTestFinished } from "vitest";
import type { Logger } from "../../../src/base/logger.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { CHANGES_KEPT_MAX } from "../../../src/store/change-log.ts";
import type { Store, StoreChange } from "../../../src/store/store.ts";
import { openTestStore } from "../../support/test-store.ts";

function open(options: Parameters<typeof openTestStore>[0] = {}) {
  const harness = openTestStore(options);
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

function put(store: Store, name: string, image = "i") {
  store.apply({
    kind: "App",
    name,
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: { image },
  });
}

const event = (message: string) =>
  ({ kind: "App", name: "web", type: "Normal", reason: "Started", message }) as const;

describe("the watch of the store", () => {
  it("delivers each committed change once, in order, before the write returns", () => {
    const { store } = open();
    const heard: StoreChange[] = [];
    const stop = store.watch((change) => heard.push(change));
    put(store, "a");
    expect(heard).toHaveLength(1);
    put(store, "a", "j");
    put(store, "a", "j");
    store.events.record(event("one"));
    stop();
    put(store, "b");
    expect(heard).toMatchObject([
      { sequence: 1, type: "added", kind: "App", name: "a", generation: 1 },
      { sequence: 2, type: "modified", kind: "App", name: "a", generation: 2 },
      { sequence: 3, type: "event", kind: "App", name: "web", event: { message: "one" } },
    ]);
    expect(store.changesSince(0, 3)).toEqual(heard);
  });

  it("calls watchers after the new state is visible, and not for a failed write", () => {
    const { store } = open();
    const images: (string | undefined)[] = [];
    store.watch((change) => images.push(store.get("App", change.name)?.spec.image));
    put(store, "a", "one");
    put(store, "a", "two");
    expect(() => put(store, "a", "not an image")).toThrow(/image/);
    expect(images).toEqual(["one", "two"]);
  });

  it("delivers changes to all watchers in the same order, even when a watcher writes too", () => {
    const { store } = open();
    const first: number[] = [];
    const second: number[] = [];
    store.watch((change) => {
      first.push(change.sequence);
      if (change.name === "a" && change.type === "added") put(store, "b");
    });
    store.watch((change) => second.push(change.sequence));
    put(store, "a");
    expect(first).toEqual([1, 2]);
    expect(second).toEqual([1, 2]);
  });

  it("delivers only later changes to a watcher that starts during a delivery", () => {
    const { store } = open();
    const late: number[] = [];
    let begun = false;
    store.watch(() => {
      if (begun) return;
      begun = true;
      put(store, "b");
      expect(store.lastSequence).toBe(2);
      store.watch((change) => late.push(change.sequence));
    });
    put(store, "a");
    put(store, "c");
    expect(late).toEqual([3]);
  });

  it("logs the error of a watcher that throws, without affecting the write or other watchers", () => {
    const errors: string[] = [];
    const logger: Logger = { ...silentLogger, error: (_, message) => errors.push(message) };
    const { store } = open({ logger });
    const heard: number[] = [];
    store.watch(() => {
      throw new Error("broken watcher");
    });
    store.watch((change) => heard.push(change.sequence));
    put(store, "a");
    expect(heard).toEqual([1]);
    expect(store.get("App", "a")).toBeDefined();
    expect(errors).toEqual(["a watcher of the store failed"]);
  });
});

describe("changesSince", () => {
  it("returns missed changes in pages, even after a restart", async () => {
    const harness = open();
    for (const name of ["a", "b", "c"]) put(harness.store, name);
    harness.store.events.record(event("hello"));
    const store = await harness.reopen();
    expect(store.lastSequence).toBe(4);
    expect(store.changesSince(1, 2)?.map((change) => change.name)).toEqual(["b", "c"]);
    expect(store.changesSince(3, 10)).toMatchObject([{ event: { message: "hello", count: 1 } }]);
    expect(store.changesSince(4, 10)).toEqual([]);
  });

  it("is undefined for a sequence number that the store has not assigned", () => {
    const { store } = open();
    put(store, "a");
    expect(store.changesSince(2, 10)).toBeUndefined();
    expect(store.changesSince(-1, 10)).toBeUndefined();
  });

  it("is undefined if changes after the sequence number have been trimmed", () => {
    const { store } = open();
    put(store, "a");
    const extra = 600;
    for (let index = 0; index < CHANGES_KEPT_MAX + extra; index += 1) {
      store.events.record(event("again"));
    }
    expect(store.changesSince(0, 10)).toBeUndefined();
    const last = store.lastSequence;
    expect(last).toBe(CHANGES_KEPT_MAX + extra + 1);
    const kept = store.changesSince(last - CHANGES_KEPT_MAX, CHANGES_KEPT_MAX * 2);
    expect(kept).toHaveLength(CHANGES_KEPT_MAX);
    const sequences = kept?.map((change) => change.sequence) ?? [];
    expect(sequences).toEqual(sequences.map((_, index) => last - CHANGES_KEPT_MAX + 1 + index));
  });
});
