import { describe, expect, it, onTestFinished } from "vitest";
import { LEASE_PORT_MAX, LEASE_PORT_MIN } from "../../../src/store/port-leases.ts";
import { LAST_USED_RESOLUTION_MS, SESSIONS_KEPT_MAX } from "../../../src/store/tokens.ts";
import { openTestStore, type TestStore } from "../../support/test-store.ts";

function open(options: Parameters<typeof openTestStore>[0] = {}): TestStore {
  const harness = openTestStore(options);
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

const named = (name: string, lifetimeMs: number | null = null) =>
  ({ name, scope: "write", kind: "named", lifetimeMs }) as const;

describe("tokens in the store", () => {
  it("are random and opaque, and are found only by their value", async () => {
    const harness = open();
    const { token, record } = harness.store.tokens.create(named("ci"));
    expect(token).toMatch(/^berth_[A-Za-z0-9_-]{43}$/);
    expect(record).toMatchObject({
      name: "ci",
      scope: "write",
      kind: "named",
      createdAt: "2030-01-01T00:00:00.000Z",
      expiresAt: null,
      lastUsedAt: null,
    });
    const store = await harness.reopen();
    expect(store.tokens.find(token)).toMatchObject({ id: record.id, name: "ci" });
    const wrong = [`${token}x`, token.slice(0, -1), "", record.id, `berth_${"x".repeat(1e6)}`];
    for (const text of wrong) expect(store.tokens.find(text)).toBeUndefined();
    expect(JSON.stringify(store.tokens.list())).not.toContain(token.slice(6));
  });

  it("expire on time, to the millisecond", async () => {
    const { store, clock } = open();
    const { token, record } = store.tokens.create(named("ci", 1_000));
    expect(record.expiresAt).toBe("2030-01-01T00:00:01.000Z");
    await clock.advance(999);
    expect(store.tokens.find(token)).toBeDefined();
    await clock.advance(1);
    expect(store.tokens.find(token)).toBeUndefined();
    expect(store.tokens.list()).toEqual([]);
    expect(store.tokens.create(named("ci")).record.name).toBe("ci");
  });

  it("are revoked immediately", () => {
    const { store } = open();
    const { token, record } = store.tokens.create(named("ci"));
    expect(store.tokens.revoke(record.id)).toBe(true);
    expect(store.tokens.find(token)).toBeUndefined();
    expect(store.tokens.revoke(record.id)).toBe(false);
  });

  it("have unique names, except the tokens of sessions", () => {
    const { store } = open();
    store.tokens.create(named("ci"));
    expect(() => store.tokens.create(named("ci"))).toThrow(
      expect.objectContaining({ code: "name_taken" }),
    );
    const session = { name: "admin", scope: "admin", kind: "session", lifetimeMs: 1_000 } as const;
    store.tokens.create(session);
    store.tokens.create(session);
    expect(store.tokens.list()).toHaveLength(3);
  });

  it("store the time of their last use, rounded to the minute", async () => {
    const { store, clock } = open();
    const { token } = store.tokens.create(named("ci"));
    expect(store.tokens.find(token)?.lastUsedAt).toBe("2030-01-01T00:00:00.000Z");
    await clock.advance(LAST_USED_RESOLUTION_MS - 1);
    expect(store.tokens.find(token)?.lastUsedAt).toBe("2030-01-01T00:00:00.000Z");
    await clock.advance(1);
    expect(store.tokens.find(token)?.lastUsedAt).toBe("2030-01-01T00:01:00.000Z");
    expect(store.tokens.list()[0]?.lastUsedAt).toBe("2030-01-01T00:01:00.000Z");
  });

  it("of sessions are limited in number: the oldest session is removed first", async () => {
    const { store, clock } = open();
    const login = () =>
      store.tokens.create({ name: "admin", scope: "admin", kind: "session", lifetimeMs: 1e9 });
    const first = login();
    await clock.advance(1);
    const kept = store.tokens.create(named("ci"));
    for (let index = 0; index < SESSIONS_KEPT_MAX; index += 1) login();
    expect(store.tokens.find(first.token)).toBeUndefined();
    expect(store.tokens.find(kept.token)).toBeDefined();
    expect(store.tokens.list()).toHaveLength(SESSIONS_KEPT_MAX + 1);
  });
});

describe("address leases in the store", () => {
  it("give each replica the free pair of addresses with the lowest number, which it keeps over a restart", async () => {
    const harness = open();
    const { addresses } = harness.store;
    expect(addresses.get("web", 0)).toBeUndefined();
    expect([addresses.lease("web", 0), addresses.lease("web", 1)]).toEqual([0, 1]);
    expect([addresses.lease("shop", 0), addresses.lease("web", 0)]).toEqual([2, 0]);
    expect((await harness.reopen()).addresses.get("shop", 0)).toBe(2);
  });

  it("can be assigned again after their release", () => {
    const { addresses } = open().store;
    for (const app of ["a", "b", "c"]) addresses.lease(app, 0);
    addresses.release("b");
    addresses.release("b");
    expect([addresses.lease("d", 0), addresses.lease("d", 1), addresses.get("b", 0)]).toEqual([
      1,
      3,
      undefined,
    ]);
  });
});

describe("port leases in the store", () => {
  it("are the same after a restart, and differ between instances", async () => {
    const harness = open({ instanceId: "00000001" });
    const port = harness.store.ports.lease("web", 0, 80);
    expect(port).toBeGreaterThanOrEqual(LEASE_PORT_MIN);
    expect(port).toBeLessThanOrEqual(LEASE_PORT_MAX);
    expect((await harness.reopen()).ports.lease("web", 0, 80)).toBe(port);
    expect(open({ instanceId: "00000002" }).store.ports.lease("web", 0, 80)).not.toBe(port);
  });

  it("are never assigned twice", () => {
    const { store } = open();
    const ports = [];
    for (let app = 0; app < 100; app += 1) {
      for (let replica = 0; replica < 5; replica += 1) {
        ports.push(store.ports.lease(`app-${app}`, replica, 80));
        ports.push(store.ports.lease(`app-${app}`, replica, 81));
      }
    }
    expect(new Set(ports).size).toBe(1_000);
  });

  it("are replaced by another port if another program uses the port, and the new port is kept", () => {
    const { store } = open();
    const first = store.ports.lease("web", 0, 80);
    const second = store.ports.lease("web", 0, 80, [first, first + 1]);
    expect([first, first + 1]).not.toContain(second);
    expect(store.ports.lease("web", 0, 80)).toBe(second);
  });

  it("can be assigned again after their release", () => {
    const { store } = open();
    const port = store.ports.lease("web", 0, 80);
    store.ports.release("web");
    store.ports.release("web");
    const others = Array.from({ length: LEASE_PORT_MAX - LEASE_PORT_MIN + 1 }, (_, i) => i);
    const avoid = others.map((index) => LEASE_PORT_MIN + index).filter((other) => other !== port);
    expect(store.ports.lease("db", 3, 5432, avoid)).toBe(port);
    expect(() => store.ports.lease("web", 0, 80, avoid)).toThrow(
      expect.objectContaining({ code: "port_taken" }),
    );
  });
});

describe("owned images in the store", () => {
  it("belong to apps, and are shared if two apps use the same image", () => {
    const { store } = open();
    store.ownedImages.add("nginx:1", "web");
    store.ownedImages.add("nginx:1", "web");
    store.ownedImages.add("redis:7", "web");
    expect(store.ownedImages.list("web")).toEqual(["nginx:1", "redis:7"]);
    expect(store.ownedImages.isUsedByOthers("nginx:1", "web")).toBe(false);
    store.ownedImages.add("nginx:1", "blog");
    expect(store.ownedImages.isUsedByOthers("nginx:1", "web")).toBe(true);
    store.ownedImages.remove("nginx:1", "web");
    expect(store.ownedImages.list("web")).toEqual(["redis:7"]);
    expect(store.ownedImages.isUsedByOthers("nginx:1", "blog")).toBe(false);
  });
});

describe("settings in the store", () => {
  it("are stored separately from the store's internal values", async () => {
    const harness = open();
    expect(harness.store.settings.get("password")).toBeUndefined();
    harness.store.settings.set("password", "scrypt:1");
    harness.store.settings.set("password", "scrypt:2");
    harness.store.settings.set("instanceId", "overwritten");
    const { instanceId } = harness.store;
    const store = await harness.reopen();
    expect(store.settings.get("password")).toBe("scrypt:2");
    expect(store.instanceId).toBe(instanceId);
  });
});
