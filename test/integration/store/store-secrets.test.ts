import { execFileSync } from "node:child_process";
import { chmodSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { BerthError, InvalidSpecError } from "../../../src/base/errors.ts";
import type { ApplyIntent, Store } from "../../../src/store/store.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";
import { openTestStore, type TestStore } from "../../support/test-store.ts";

const VALUE = "correct-horse-battery-staple-7f3a";
const OTHER = "wrong-donkey-capacitor-paperclip-91c2";

function open(): TestStore {
  const harness = openTestStore();
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

function put(store: Store, data: Record<string, unknown>, more: Partial<ApplyIntent> = {}) {
  return store.apply({
    kind: "Secret",
    name: "db",
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: { data },
    ...more,
  });
}

/**
 * Returns the files below the directory that contain the text. It runs in another process, because reading a database
 * here would drop SQLite's locks.
 */
function filesHolding(directory: string, text: string): string[] {
  try {
    return execFileSync("grep", ["-rlaF", "--", text, directory], { encoding: "utf8" })
      .trim()
      .split("\n");
  } catch {
    return [];
  }
}

describe("secrets in the store", () => {
  it("are stored, revealed to reconcilers only, and never shown", async () => {
    const harness = open();
    const { resource, changes } = put(harness.store, { password: VALUE, user: "app" });
    expect(resource.spec).toEqual({ data: { password: "", user: "" } });
    expect(changes).toEqual([
      { path: "/spec/data/password", before: undefined, after: "(secret)" },
      { path: "/spec/data/user", before: undefined, after: "(secret)" },
    ]);
    const store = await harness.reopen();
    expect(store.get("Secret", "db")?.spec).toEqual({ data: { password: "", user: "" } });
    expect(store.list("Secret")[0]?.spec).toEqual({ data: { password: "", user: "" } });
    expect(store.secrets.reveal("db")).toEqual({ password: VALUE, user: "app" });
    expect(store.secrets.reveal("none")).toBeUndefined();
  });

  it("are in plaintext in no file of the data directory, while the store is open, after a restart, or after their deletion", async () => {
    const harness = open();
    put(harness.store, { password: VALUE });
    put(harness.store, { password: OTHER, more: VALUE });
    harness.store.apply({
      kind: "Secret",
      name: "from-file",
      manager: "file:s.yaml",
      actor: { name: "file:s.yaml" },
      mode: "replace",
      declares: true,
      spec: { data: { password: VALUE } },
    });
    expect(() => put(harness.store, { password: VALUE, "bad key": VALUE })).toThrow(
      InvalidSpecError,
    );
    await harness.store.backup(join(harness.dataDir, "copy.backup"));
    const findPlaintext = () =>
      [VALUE, OTHER].flatMap((text) => filesHolding(harness.dataDir, text));
    expect(filesHolding(harness.dataDir, "from-file").length).toBeGreaterThan(0);
    expect(findPlaintext()).toEqual([]);
    await harness.reopen();
    expect(findPlaintext()).toEqual([]);
    harness.store.delete("Secret", "db", { actor: { name: "user:admin" }, manager: "api" });
    await harness.store[Symbol.asyncDispose]();
    expect(findPlaintext()).toEqual([]);
  });

  it("get a higher generation for a new value, but not for the same value", () => {
    const { store } = open();
    put(store, { password: VALUE });
    const same = put(store, { password: VALUE });
    expect(same.changes).toEqual([]);
    expect(same.resource.metadata).toMatchObject({ generation: 1, resourceVersion: 1 });
    const other = put(store, { password: OTHER });
    expect(other.changes).toEqual([
      { path: "/spec/data/password", before: "(secret)", after: "(secret)" },
    ]);
    expect(other.resource.metadata.generation).toBe(2);
    expect(store.secrets.reveal("db")).toEqual({ password: OTHER });
    expect(JSON.stringify(store.audit.list({ limit: 10 }))).not.toContain(VALUE);
  });

  it("can be removed one by one", () => {
    const { store } = open();
    put(store, { a: VALUE, b: OTHER });
    put(store, { a: null });
    expect(store.secrets.reveal("db")).toEqual({ b: OTHER });
    put(store, { b: null });
    expect(store.secrets.reveal("db")).toEqual({});
    expect(store.get("Secret", "db")?.spec).toEqual({ data: {} });
  });

  it("that a spec file declares can be overwritten with force until the file changes", () => {
    const { store } = open();
    const file = (value: string) =>
      put(store, { password: value }, { manager: "file:s.yaml", mode: "replace", declares: true });
    file(VALUE);
    expect(() => put(store, { password: OTHER })).toThrow(
      expect.objectContaining({ code: "field_owned" }),
    );
    put(store, { password: OTHER }, { force: true });
    expect(file(VALUE).yielded).toEqual(["/spec/data/password"]);
    expect(store.secrets.reveal("db")).toEqual({ password: OTHER });
    file("third");
    expect(store.secrets.reveal("db")).toEqual({ password: "third" });
  });

  it("that are invalid are refused without being quoted", () => {
    const { store } = open();
    for (const data of [{ password: [VALUE] }, { "bad key": VALUE }, { password: { a: VALUE } }]) {
      const error = catchBerthError(() => put(store, data));
      expect(error).toBeInstanceOf(InvalidSpecError);
      expect(JSON.stringify([error, String(error)])).not.toContain(VALUE);
    }
    expect(store.get("Secret", "db")).toBeUndefined();
  });

  it("are validated when they change, together with the decrypted values that were stored before", () => {
    const { store } = open();
    const registry = { server: "r.example.org", username: "u", password: VALUE };
    put(store, {}, { spec: { type: "registry", data: registry } });
    put(store, { password: OTHER });
    expect(store.secrets.reveal("db")).toEqual({ ...registry, password: OTHER });
    expect(() => put(store, { server: null })).toThrow(InvalidSpecError);
  });

  it("cannot be decrypted after they were moved to another name or key in the database", async () => {
    const harness = open();
    put(harness.store, { password: VALUE, user: "app" });
    await harness.store[Symbol.asyncDispose]();
    const db = new Database(join(harness.dataDir, "berth.db"));
    db.exec(`UPDATE secret_values SET sealed = (
      SELECT sealed FROM secret_values WHERE key = 'password') WHERE key = 'user'`);
    db.close();
    const store = await harness.reopen();
    expect(() => store.secrets.reveal("db")).toThrow(
      expect.objectContaining({ code: "store_corrupt" }),
    );
  });
});

describe("the key of the secrets", () => {
  it("is readable for the owner only, also after its mode was changed", async () => {
    const harness = open();
    const file = join(harness.dataDir, "secret.key");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    chmodSync(file, 0o644);
    await harness.reopen();
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("is required to open the store, and the error names a remedy", async () => {
    const harness = open();
    put(harness.store, { password: VALUE });
    await harness.store[Symbol.asyncDispose]();
    rmSync(join(harness.dataDir, "secret.key"));
    await expect(harness.reopen()).rejects.toThrow(/secret.key\) is missing/);
    const other = open();
    await other.store[Symbol.asyncDispose]();
    execFileSync("cp", [join(other.dataDir, "secret.key"), harness.dataDir]);
    const error = await harness.reopen().then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(BerthError);
    expect(error).toMatchObject({
      code: "store_corrupt",
      hint: expect.stringContaining("berth restore"),
    });
  });
});
