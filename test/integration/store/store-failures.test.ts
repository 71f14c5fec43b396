import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../../src/base/clock.ts";
import { migrate, openDatabase } from "../../../src/base/sqlite.ts";
import { migrations } from "../../../src/store/migrations.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { openTestStore } from "../../support/test-store.ts";

function put(store: Store, name: string, text: string) {
  return store.apply({
    kind: "App",
    name,
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: { image: "nginx:1", env: { TEXT: text } },
  });
}

describe("a full disk", () => {
  it("fails the whole write, keeps all earlier ones, and allows writes again when there is space", async () => {
    const harness = openTestStore({ sizeMaxBytes: 512 * 1024 });
    onTestFinished(() => harness[Symbol.asyncDispose]());
    const { store } = harness;
    const heard: string[] = [];
    store.watch((change) => heard.push(change.name));
    let written = 0;
    const error = catchBerthError(() => {
      for (; written < 1_000; written += 1) put(store, `app-${written}`, "x".repeat(20_000));
    });
    expect(error.code).toBe("disk_full");
    expect(error.message).not.toContain(harness.dataDir);
    expect(written).toBeGreaterThan(3);
    const names = Array.from({ length: written }, (_, index) => `app-${index}`);
    expect(heard).toEqual(names);
    expect(store.list("App").map((one) => one.metadata.name)).toEqual(names.toSorted());
    expect(store.get("App", `app-${written}`)).toBeUndefined();
    expect(store.lastSequence).toBe(written);
    expect(store.changesSince(0, 10_000)).toHaveLength(written);
    expect(store.audit.list({ limit: 10_000 })).toHaveLength(written);

    const before = store.get("App", "app-0");
    expect(catchBerthError(() => put(store, "app-0", "y".repeat(60_000))).code).toBe("disk_full");
    expect(store.get("App", "app-0")).toEqual(before);

    const smaller = put(store, "app-0", "small");
    expect(smaller.resource.spec.env).toEqual({ TEXT: "small" });
    const reopened = await harness.reopen();
    expect(reopened.list("App")).toHaveLength(written);
    expect(reopened.get("App", "app-0")).toEqual(smaller.resource);
  });
});

describe("a damaged store", () => {
  it("that is not a database is refused, and the message contains a remedy", () => {
    const dataDir = temporaryFolder("failures");
    writeFileSync(join(dataDir, "berth.db"), "this is no database, ".repeat(1_000));
    const error = catchBerthError(() => openStore({ dataDir, clock: systemClock }));
    expect(error.code).toBe("store_corrupt");
    expect(error.hint).toContain("berth restore");
    expect(error.message).not.toContain(dataDir);
  });

  it("with damaged pages fails with store_corrupt", async () => {
    const harness = openTestStore();
    onTestFinished(() => harness[Symbol.asyncDispose]());
    for (let index = 0; index < 50; index += 1) put(harness.store, `a-${index}`, "x".repeat(3_000));
    await harness.store[Symbol.asyncDispose]();
    const file = join(harness.dataDir, "berth.db");
    const db = new Database(file);
    const pages = Number(db.pragma("page_count", { simple: true }));
    db.close();
    // This overwrites everything after the schema, as a faulty disk might.
    const handle = openSync(file, "r+");
    writeSync(handle, Buffer.alloc((pages - 30) * 4096, 0xa5), 0, undefined, 30 * 4096);
    closeSync(handle);
    const error = await harness.reopen().then(
      (store) => catchBerthError(() => store.list("App")),
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: "store_corrupt" });
  });

  it("whose record is not JSON causes an error that names the record", async () => {
    const harness = openTestStore();
    onTestFinished(() => harness[Symbol.asyncDispose]());
    put(harness.store, "web", "x");
    await harness.store[Symbol.asyncDispose]();
    const db = new Database(join(harness.dataDir, "berth.db"));
    db.exec("UPDATE resources SET spec = '{' WHERE name = 'web'");
    db.close();
    const store = await harness.reopen();
    expect(catchBerthError(() => store.get("App", "web"))).toMatchObject({
      code: "store_corrupt",
      message: "the record of App web cannot be read",
    });
  });
});

describe("a data directory that cannot be used", () => {
  it("is refused, and the message contains no paths", () => {
    const parent = temporaryFolder("failures");
    writeFileSync(join(parent, "file"), "");
    const error = catchBerthError(() =>
      openStore({ dataDir: join(parent, "file", "data"), clock: systemClock }),
    );
    expect(error.code).toBe("internal");
    expect(error.message).not.toContain(parent);
  });
});

describe("a write that fails in the middle", () => {
  it("is rolled back, and the next write succeeds", async () => {
    const harness = openTestStore();
    onTestFinished(() => harness[Symbol.asyncDispose]());
    expect(catchBerthError(() => harness.store.revisions.mark("web", 1, "stable", null)).code).toBe(
      "not_found",
    );
    put(harness.store, "web", "x");
    const store = await harness.reopen();
    expect(store.get("App", "web")).toBeDefined();
  });
});

describe("a closed store", () => {
  it("throws an error that says that the store is closed", async () => {
    const harness = openTestStore();
    onTestFinished(() => harness[Symbol.asyncDispose]());
    await harness.store[Symbol.asyncDispose]();
    expect(catchBerthError(() => harness.store.list("Model")).message).toBe("the store is closed");
    expect(catchBerthError(() => put(harness.store, "web", "x")).message).toBe(
      "the store is closed",
    );
  });
});

describe("the schema of the store", () => {
  it("of a newer Berth is refused without changes", async () => {
    const harness = openTestStore();
    onTestFinished(() => harness[Symbol.asyncDispose]());
    put(harness.store, "web", "x");
    await harness.store[Symbol.asyncDispose]();
    const db = new Database(join(harness.dataDir, "berth.db"));
    db.pragma(`user_version = ${migrations.length + 1}`);
    db.close();
    await expect(harness.reopen()).rejects.toMatchObject({
      code: "wrong_state",
      message: expect.stringContaining(`schema ${migrations.length + 1}`),
    });
    const again = new Database(join(harness.dataDir, "berth.db"));
    expect(again.pragma("user_version", { simple: true })).toBe(migrations.length + 1);
    again.pragma(`user_version = ${migrations.length}`);
    again.close();
    expect((await harness.reopen()).get("App", "web")).toBeDefined();
  });

  it("is migrated one numbered step at a time, each in a transaction", () => {
    const directory = temporaryFolder("failures");
    const file = join(directory, "x.db");
    const steps = ["CREATE TABLE a (x TEXT)", "ALTER TABLE a ADD COLUMN y TEXT"];
    const db = openDatabase({ file, durability: "off" });
    const version = () => db.pragma("user_version", { simple: true });
    migrate(db, steps.slice(0, 1));
    db.exec("INSERT INTO a VALUES ('kept')");
    expect(version()).toBe(1);
    migrate(db, steps);
    migrate(db, steps);
    expect(version()).toBe(2);
    const broken = [...steps, "CREATE TABLE b (x TEXT); CREATE TABLE a (x TEXT)"];
    expect(catchBerthError(() => migrate(db, broken)).code).toBe("internal");
    expect(version()).toBe(2);
    expect(db.prepare("SELECT name FROM sqlite_schema WHERE name = 'b'").all()).toEqual([]);
    expect(db.prepare("SELECT x FROM a").pluck().all()).toEqual(["kept"]);
    db.close();
  });
});

describe("openDatabase", () => {
  it("flushes each commit unless durability is off", () => {
    const directory = temporaryFolder("failures");
    for (const [durability, level] of [
      ["full", 2],
      ["off", 0],
    ] as const) {
      const db = openDatabase({ file: join(directory, durability), durability });
      expect(db.pragma("synchronous", { simple: true })).toBe(level);
      expect(db.pragma("journal_mode", { simple: true })).toBe("wal");
      expect(db.pragma("foreign_keys", { simple: true })).toBe(1);
      db.close();
    }
  });
});
