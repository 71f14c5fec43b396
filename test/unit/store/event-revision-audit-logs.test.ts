import { describe, expect, it, onTestFinished } from "vitest";
import { emptyReconcileState } from "../../../src/resources/app-status.ts";
import {
  AUDIT_CHANGES_MAX,
  AUDIT_KEPT_MAX,
  AUDIT_VALUE_LENGTH_MAX,
} from "../../../src/store/audit.ts";
import {
  EVENT_MESSAGE_LENGTH_MAX,
  EVENT_WINDOW_MS,
  EVENTS_KEPT_MAX,
  EVENTS_PER_RESOURCE_MAX,
} from "../../../src/store/events.ts";
import { REVISIONS_KEPT_MAX } from "../../../src/store/revisions.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore, type TestStore } from "../../support/test-store.ts";

function open(): TestStore {
  const harness = openTestStore();
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

const started = (name: string, message = "container started") =>
  ({ kind: "App", name, type: "Normal", reason: "Started", message }) as const;

describe("events in the store", () => {
  it("are counted while they repeat, and a repeated event becomes the newest", async () => {
    const { store, clock } = open();
    const first = store.events.record(started("web"));
    expect(first).toMatchObject({ count: 1, name: "web", reason: "Started" });
    await clock.advance(1_000);
    store.events.record(started("web", "another"));
    await clock.advance(1_000);
    const again = store.events.record(started("web"));
    expect(again).toEqual({
      ...first,
      count: 2,
      firstTime: "2030-01-01T00:00:00.000Z",
      lastTime: "2030-01-01T00:00:02.000Z",
    });
    expect(store.events.list({ limit: 10 })).toMatchObject([
      { message: "container started", count: 2 },
      { message: "another", count: 1 },
    ]);
  });

  it("are recorded separately if the last repetition is more than ten minutes old", async () => {
    const { store, clock } = open();
    const first = store.events.record(started("web"));
    await clock.advance(EVENT_WINDOW_MS);
    expect(store.events.record(started("web")).id).toBe(first.id);
    await clock.advance(EVENT_WINDOW_MS + 1);
    const second = store.events.record(started("web"));
    expect(second.id).not.toBe(first.id);
    expect(second.count).toBe(1);
  });

  it("are different if kind, name, type, reason or message differ", () => {
    const { store } = open();
    const base = started("web");
    const others = [
      base,
      { ...base, name: "db" },
      { ...base, kind: "Model" as const },
      { ...base, kind: null, name: "" },
      { ...base, type: "Warning" as const },
      { ...base, reason: "Restarted" },
      { ...base, message: "m" },
    ];
    for (const one of others) store.events.record(one);
    const counts = store.events.list({ limit: 100 }).map((event) => event.count);
    expect(counts).toEqual(others.map(() => 1));
    expect(store.events.list({ kind: "App", name: "web", limit: 100 })).toHaveLength(4);
    expect(store.events.list({ name: "web", limit: 2 })).toHaveLength(2);
    expect(store.events.record({ ...base, kind: null, name: "" }).count).toBe(2);
  });

  it("are limited for each resource independently, and the oldest are removed first", () => {
    const { store } = open();
    store.events.record(started("quiet"));
    for (let index = 0; index < EVENTS_PER_RESOURCE_MAX + 50; index += 1) {
      store.events.record(started("noisy", `m${index}`));
    }
    const noisy = store.events.list({ kind: "App", name: "noisy", limit: 10_000 });
    expect(noisy).toHaveLength(EVENTS_PER_RESOURCE_MAX);
    expect(noisy[0]?.message).toBe(`m${EVENTS_PER_RESOURCE_MAX + 49}`);
    expect(store.events.list({ name: "quiet", limit: 10 })).toHaveLength(1);
  });

  it("are limited in total", () => {
    const { store } = open();
    for (let index = 0; index < EVENTS_KEPT_MAX + 300; index += 1) {
      store.events.record(started(`app-${index % 500}`, `m${index}`));
    }
    const count = store.events.list({ limit: 1_000_000 }).length;
    expect(count).toBeGreaterThanOrEqual(EVENTS_KEPT_MAX);
    expect(count).toBeLessThan(EVENTS_KEPT_MAX + 64);
  });

  it("have messages of limited length", () => {
    const { store } = open();
    const { message } = store.events.record(started("web", "x".repeat(100_000)));
    expect(message).toHaveLength(EVENT_MESSAGE_LENGTH_MAX);
  });
});

const input = (specHash: string, generation = 1) => ({
  app: "web",
  generation,
  specHash,
  spec: { image: "nginx:1" },
  image: "nginx:1",
  imageId: null,
});

function makeApp(store: Store, actor: string, image = "nginx:1") {
  store.apply({
    kind: "App",
    name: "web",
    manager: "api",
    actor: { name: actor },
    mode: "merge",
    spec: { image },
  });
}

describe("revisions in the store", () => {
  it("are numbered from 1, one for each spec hash, and record the actor", () => {
    const { store } = open();
    makeApp(store, "user:admin");
    expect(store.revisions.ensure(input("h1"))).toEqual({
      app: "web",
      number: 1,
      generation: 1,
      specHash: "h1",
      spec: { image: "nginx:1" },
      image: "nginx:1",
      imageId: null,
      digest: null,
      createdAt: "2030-01-01T00:00:00.000Z",
      scope: "write",
      state: "attempted",
      message: null,
      actor: "user:admin",
    });
    makeApp(store, "token:ci", "nginx:2");
    expect(store.revisions.ensure(input("h2", 2))).toMatchObject({ number: 2, actor: "token:ci" });
    expect(store.revisions.ensure(input("h1", 3))).toMatchObject({ number: 1, generation: 1 });
    expect(store.revisions.list("web").map((one) => one.number)).toEqual([2, 1]);
    expect(store.revisions.get("web", 3)).toBeUndefined();
  });

  it("store the id of their image once it is known", () => {
    const { store } = open();
    store.revisions.ensure({ ...input("h1"), image: null });
    const known = store.revisions.ensure({ ...input("h1"), imageId: "sha256:1" });
    expect(known).toMatchObject({ image: "nginx:1", imageId: "sha256:1" });
    expect(store.revisions.get("web", 1)).toEqual(known);
  });

  it("keep their mark, such as quarantined, after a restart; a missing revision cannot be marked", async () => {
    const harness = open();
    harness.store.revisions.ensure(input("h1"));
    harness.store.revisions.mark("web", 1, "quarantined", "exited with 1");
    const store = await harness.reopen();
    expect(store.revisions.get("web", 1)).toMatchObject({
      state: "quarantined",
      message: "exited with 1",
    });
    expect(() => store.revisions.mark("web", 2, "stable", null)).toThrow(/no revision 2/);
  });

  it("are limited in number, but the newest stable one is kept", () => {
    const { store } = open();
    for (let index = 1; index <= REVISIONS_KEPT_MAX + 10; index += 1) {
      store.revisions.ensure(input(`h${index}`, index));
      store.revisions.mark("web", index, index <= 2 ? "stable" : "quarantined", null);
    }
    const numbers = store.revisions.list("web").map((one) => one.number);
    expect(numbers).toHaveLength(REVISIONS_KEPT_MAX + 1);
    expect(numbers[0]).toBe(REVISIONS_KEPT_MAX + 10);
    expect(numbers.at(-1)).toBe(2);
    expect(store.revisions.ensure(input("another")).number).toBe(REVISIONS_KEPT_MAX + 11);
  });

  it("are kept while the reconciler refers to them, whatever their age", () => {
    const { store } = open();
    makeApp(store, "user:admin");
    for (const hash of ["good", "held", "runs", "asked", "over"])
      store.revisions.ensure(input(hash));
    const app = store.get("App", "web");
    store.setStatus("App", "web", app?.metadata.uid ?? "", {
      phase: "running",
      observedGeneration: 1,
      conditions: [],
      revisions: { attempted: 4, applied: 3, stable: null },
      containers: [],
      url: null,
      nextRetryAt: null,
      restarts: 0,
      memory: {
        ...emptyReconcileState,
        good: 1,
        quarantine: { inputs: "", generation: 1, revertedTo: 2, reason: "", message: "" },
      },
    });
    for (let index = 0; index < REVISIONS_KEPT_MAX; index += 1)
      store.revisions.ensure(input(`h${index}`));
    const kept = store.revisions.list("web").map(({ specHash }) => specHash);
    expect(kept).toHaveLength(REVISIONS_KEPT_MAX + 4);
    expect(kept.slice(-4)).toEqual(["asked", "runs", "held", "good"]);
  });
});

describe("the audit log of the store", () => {
  it("records the actor, the fields, and the values before and after each write, newest first", () => {
    const { store } = open();
    const apply = (spec: Record<string, unknown>, requestId?: string) =>
      store.apply({
        kind: "App",
        name: "web",
        manager: "api",
        actor: { name: "token:ci", ...(requestId ? { requestId } : {}) },
        mode: "merge",
        spec,
      });
    apply({ image: "a" }, "r-1");
    apply({ image: "b", port: 80 });
    store.audit.append({
      actor: "user:admin",
      requestId: null,
      action: "login",
      kind: null,
      name: "",
      changes: [],
    });
    const [login, update, create] = store.audit.list({ limit: 10 });
    expect(login).toMatchObject({ action: "login", actor: "user:admin", kind: null });
    expect(update).toEqual({
      id: 2,
      time: "2030-01-01T00:00:00.000Z",
      actor: "token:ci",
      requestId: null,
      action: "update",
      kind: "App",
      name: "web",
      changes: [
        { path: "/spec/image", before: "a", after: "b" },
        { path: "/spec/port", before: undefined, after: 80 },
      ],
    });
    expect(create).toMatchObject({ action: "create", requestId: "r-1" });
    expect(store.audit.list({ kind: "App", name: "web", limit: 10 })).toHaveLength(2);
    expect(store.audit.list({ limit: 10, before: 2 })).toEqual([create]);
    expect(store.audit.list({ kind: "Model", limit: 10 })).toEqual([]);
  });

  it("truncates long values, and lists a limited number of fields for each entry", () => {
    const { store } = open();
    const env = Object.fromEntries(
      Array.from({ length: AUDIT_CHANGES_MAX + 50 }, (_, index) => [`V${index}`, "x"]),
    );
    store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { image: "a", command: ["y".repeat(AUDIT_VALUE_LENGTH_MAX * 2)], env },
    });
    const [entry] = store.audit.list({ limit: 1 });
    expect(entry?.changes).toHaveLength(AUDIT_CHANGES_MAX + 1);
    expect(entry?.changes.at(-1)?.after).toBe("and 52 more fields");
    const command = entry?.changes.find((change) => change.path === "/spec/command");
    expect(String(command?.after).length).toBeLessThan(AUDIT_VALUE_LENGTH_MAX + 40);
  });

  it("is limited in size, and the oldest entries are removed first", () => {
    const { store } = open();
    const entries = AUDIT_KEPT_MAX + 200;
    for (let index = 0; index < entries; index += 1) {
      store.audit.append({
        actor: "user:admin",
        requestId: null,
        action: "login",
        kind: null,
        name: "",
        changes: [],
      });
    }
    const kept = store.audit.list({ limit: 1_000_000 });
    expect(kept.length).toBeGreaterThanOrEqual(AUDIT_KEPT_MAX);
    expect(kept.length).toBeLessThan(AUDIT_KEPT_MAX + 64);
    expect(kept[0]?.id).toBe(entries);
  });
});
