import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Provider } from "../../../../src/assistant/remote/port.ts";
import { RemoteStore } from "../../../../src/assistant/remote/store/remote-store.ts";
import { findFilesWith } from "../../../support/memory-harness.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const home: Provider = {
  id: "home",
  displayName: "At home \u{1f3e0}",
  baseUrl: "http://10.1.2.3:8000/v1",
  addressClass: "private",
  builtin: false,
  auth: "key",
};
const mistral: Provider = {
  ...home,
  id: "mistral",
  displayName: "Mistral",
  baseUrl: "https://api.mistral.ai/v1",
  addressClass: "public",
};
const NOON = Date.parse("2030-01-01T12:00:00Z");

function opened(dir: string): RemoteStore {
  const store = new RemoteStore({ dir });
  onTestFinished(() => store[Symbol.dispose]());
  return store;
}

/** Closes the store and opens it again, as a daemon that restarts does. */
function restarted(store: RemoteStore, dir: string): RemoteStore {
  store[Symbol.dispose]();
  return opened(dir);
}

function sql<T>(dir: string, work: (db: Database.Database) => T): T {
  const db = new Database(join(dir, "remote.db"));
  try {
    return work(db);
  } finally {
    db.close();
  }
}

describe("stored providers", () => {
  it("are in the order in which they were added, each id once", () => {
    const dir = temporaryFolder("remote-store");
    let store = opened(dir);
    expect(store.providers()).toEqual([]);
    expect(store.addProvider(mistral)).toBe(true);
    expect(store.addProvider(home)).toBe(true);
    expect(store.addProvider({ ...home, baseUrl: "https://evil.example" })).toBe(false);
    store = restarted(store, dir);
    expect(store.providers()).toEqual([mistral, home]);
    expect(statSync(join(dir, "remote.db")).mode & 0o777).toBe(0o600);
  });

  it("are removed with all their data", () => {
    const dir = temporaryFolder("remote-store");
    let store = opened(dir);
    store.addProvider(home);
    store.noteUsed("home", NOON);
    expect(store.removeProvider("home")).toBe(true);
    expect(store.removeProvider("home")).toBe(false);
    expect(store.lastUsedMs("home")).toBeUndefined();
    store = restarted(store, dir);
    expect(store.providers()).toEqual([]);
    expect(store.lastUsedMs("home")).toBeUndefined();
    store[Symbol.dispose]();
    expect(findFilesWith(dir, "10.1.2.3")).toEqual([]);
  });
});

describe("stored consent", () => {
  it("is empty at first, and then contains the allowed classes of data", () => {
    const dir = temporaryFolder("remote-store");
    let store = opened(dir);
    expect(store.allowed()).toEqual([]);
    store.setConsent("mail", true);
    store.setConsent("prompt", true);
    store.setConsent("prompt", true);
    store.setConsent("files", false);
    store = restarted(store, dir);
    expect(store.allowed()).toEqual(["prompt", "mail"]);
    store.setConsent("mail", false);
    expect(restarted(store, dir).allowed()).toEqual(["prompt"]);
  });

  it("ignores classes that this version does not know", () => {
    const dir = temporaryFolder("remote-store");
    const store = opened(dir);
    sql(dir, (db) => db.exec("INSERT INTO allowed VALUES ('everything')"));
    expect(store.allowed()).toEqual([]);
  });
});

const written = (dir: string) =>
  sql(dir, (db) => db.prepare("SELECT last_ms FROM used").pluck().get());

describe("the stored time of a provider's last use", () => {
  it("is known at once, and is written once a minute and at disposal", () => {
    const dir = temporaryFolder("remote-store");
    let store = opened(dir);
    store.noteUsed("openrouter", NOON);
    expect(written(dir)).toBe(NOON);
    store.noteUsed("openrouter", NOON + 59_999);
    expect(store.lastUsedMs("openrouter")).toBe(NOON + 59_999);
    expect(written(dir)).toBe(NOON);
    store.noteUsed("openrouter", NOON + 60_000);
    expect(written(dir)).toBe(NOON + 60_000);
    // The clock of the machine was set back by an hour.
    store.noteUsed("openrouter", NOON - 3_600_000);
    expect(written(dir)).toBe(NOON - 3_600_000);
    store.noteUsed("openrouter", NOON - 3_599_999);
    store = restarted(store, dir);
    expect(store.lastUsedMs("openrouter")).toBe(NOON - 3_599_999);
  });

  it("does not make a request fail if it cannot be written", () => {
    const dir = temporaryFolder("remote-store");
    const store = opened(dir);
    sql(dir, (db) => db.exec("DROP TABLE used"));
    store.noteUsed("openrouter", NOON);
    expect(store.lastUsedMs("openrouter")).toBe(NOON);
  });
});

describe("a provider file that cannot be used", () => {
  it("is reported with a hint and without its path", () => {
    const dir = temporaryFolder("remote-store");
    writeFileSync(join(dir, "remote.db"), "no database".repeat(1_000));
    expect(() => new RemoteStore({ dir })).toThrow(
      expect.objectContaining({
        code: "storage_failed",
        message: "remote.db is damaged and cannot be read; restore it from a backup",
      }),
    );
    expect(() => new RemoteStore({ dir: join(dir, "missing") })).toThrow(
      expect.objectContaining({
        code: "storage_failed",
        message:
          "remote.db cannot be used (ENOENT); check the disk and the permissions of the assistant's data directory",
      }),
    );
  });

  it("is left unchanged if a newer version has written it", () => {
    const dir = temporaryFolder("remote-store");
    opened(dir)[Symbol.dispose]();
    sql(dir, (db) => db.pragma("user_version = 99"));
    expect(() => new RemoteStore({ dir })).toThrow(/newer version of Berth/);
  });

  it("makes each call fail with storage_failed", () => {
    const dir = temporaryFolder("remote-store");
    const store = opened(dir);
    sql(dir, (db) => db.exec("DROP TABLE provider; DROP TABLE allowed"));
    const failed = expect.objectContaining({ code: "storage_failed" });
    expect(() => store.providers()).toThrow(failed);
    expect(() => store.addProvider(home)).toThrow(failed);
    expect(() => store.removeProvider("home")).toThrow(failed);
    expect(() => store.allowed()).toThrow(failed);
    expect(() => store.setConsent("mail", true)).toThrow(failed);
  });
});
