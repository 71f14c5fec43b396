import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import type { AppSpec } from "../../../src/resources/app-spec.ts";
import { STACK_LABEL } from "../../../src/resources/stack.ts";
import { readBackupManifest } from "../../../src/store/backup-manifest.ts";
import { migrations } from "../../../src/store/migrations.ts";
import { restoreStore } from "../../../src/store/restore.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { applyResource, openTestStore } from "../../support/test-store.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

function open() {
  const harness = openTestStore();
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

function openAt(dataDir: string): Store {
  return openStore({ dataDir, clock: new VirtualClock(), durability: "off" });
}

function put(
  store: Store,
  name: string,
  image = "nginx:1",
  annotations: Record<string, string> = {},
) {
  return store.apply({
    kind: "App",
    name,
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: { image },
    annotations,
  });
}

function putSecret(store: Store, value: string) {
  store.apply({
    kind: "Secret",
    name: "s",
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: { data: { key: value } },
  });
}

function writeIn(dataDir: string, path: string, content: string | Buffer) {
  mkdirSync(join(dataDir, path, ".."), { recursive: true });
  writeFileSync(join(dataDir, path), content);
}

function apply(store: Store, name: string, spec: AppSpec) {
  store.apply({
    kind: "App",
    name,
    manager: "api",
    actor: { name: "x", scope: "admin" },
    mode: "merge",
    spec,
  });
}

describe("backup and restore", () => {
  it("restore everything on another machine, including secrets", async () => {
    const { store } = open();
    const web = put(store, "web").resource;
    putSecret(store, "the value");
    store.settings.set("password", "scrypt");
    const { token } = store.tokens.create({
      name: "ci",
      scope: "read",
      kind: "named",
      lifetimeMs: null,
    });
    const port = store.ports.lease("web", 0, 80);
    const file = join(temporaryFolder("backup"), "berth.backup");
    await store.backup(file);
    put(store, "later");

    expect(statSync(file).mode & 0o777).toBe(0o600);
    const dataDir = join(temporaryFolder("backup"), "data");
    expect(restoreStore({ dataDir, file })).toMatchObject({ keptAs: null });
    await using restored = openAt(dataDir);
    expect(restored.instanceId).toBe(store.instanceId);
    expect(restored.get("App", "web")).toEqual(web);
    expect(restored.get("App", "later")).toBeUndefined();
    expect(restored.secrets.reveal("s")).toEqual({ key: "the value" });
    expect(restored.settings.get("password")).toBe("scrypt");
    expect(restored.tokens.find(token)?.name).toBe("ci");
    expect(restored.ports.lease("web", 0, 80)).toBe(port);
    expect(restored.audit.list({ limit: 10 })).toHaveLength(2);
  });

  it("restore the encryption key to secret.key, not to the database, and leave no temporary files", async () => {
    const harness = open();
    const folder = temporaryFolder("backup");
    const file = join(folder, "berth.backup");
    await harness.store.backup(file);
    await harness.store.backup(file);
    expect(readdirSync(folder)).toEqual(["berth.backup"]);
    // Bytes 18 and 19 of the header say that SQLite uses no write-ahead log, so a copy of the file alone is
    // complete.
    expect([...readFileSync(file).subarray(18, 20)]).toEqual([1, 1]);
    const dataDir = join(temporaryFolder("backup"), "data");
    restoreStore({ dataDir, file });
    const key = readFileSync(join(dataDir, "secret.key"));
    expect(key).toEqual(readFileSync(join(harness.dataDir, "secret.key")));
    expect(readFileSync(file).includes(key)).toBe(true);
    expect(readFileSync(join(dataDir, "berth.db")).includes(key)).toBe(false);
    expect(statSync(join(dataDir, "berth.db")).mode & 0o777).toBe(0o600);
    expect(readdirSync(dataDir).toSorted()).toEqual(["berth.db", "run", "secret.key"]);
  });

  it("a backup is consistent during concurrent writes", async () => {
    const { store } = open();
    // SQLite copies 100 of some 600 pages in each turn of the event loop, so writes happen during the backup.
    const annotations = { note: "x".repeat(20_000) };
    for (let index = 0; index < 120; index += 1) put(store, `before-${index}`, "i", annotations);
    const file = join(temporaryFolder("backup"), "berth.backup");
    const ended = new AbortController();
    const backup = store.backup(file).finally(() => ended.abort());
    let during = 0;
    for (; !ended.signal.aborted; during += 1) {
      put(store, `during-${during}`);
      // oxlint-disable-next-line no-await-in-loop -- one write in each turn of the event loop
      await setImmediate();
    }
    await backup;
    expect(during).toBeGreaterThan(2);
    const dataDir = join(temporaryFolder("backup"), "data");
    restoreStore({ dataDir, file });
    await using restored = openAt(dataDir);
    const apps = restored.list("App");
    expect(apps.length).toBeGreaterThanOrEqual(120);
    expect(restored.audit.list({ limit: 10_000 })).toHaveLength(apps.length);
  });

  it("a restored store never uses a number of its change sequence again", async () => {
    const { store } = open();
    put(store, "web");
    const file = join(temporaryFolder("backup"), "berth.backup");
    await store.backup(file);
    for (let index = 0; index < 10; index += 1) put(store, "web", `nginx:${index + 2}`);
    const seen = store.lastSequence;
    const dataDir = join(temporaryFolder("backup"), "data");
    restoreStore({ dataDir, file });
    await using restored = openAt(dataDir);
    expect(restored.changesSince(seen, 10)).toBeUndefined();
    expect(restored.changesSince(1, 10)).toBeUndefined();
    const next = put(restored, "web", "nginx:99").resource.metadata.resourceVersion;
    expect(next).toBeGreaterThan(seen);
    expect(restored.changesSince(seen, 10)).toBeUndefined();
    expect(restored.changesSince(next - 1, 10)).toHaveLength(1);
  });

  it("restore is refused while the store is open, and without force if there is a store", async () => {
    const harness = open();
    put(harness.store, "old");
    const file = join(temporaryFolder("backup"), "berth.backup");
    await harness.store.backup(file);
    put(harness.store, "new");
    const { dataDir } = harness;
    const restore = (force: boolean) =>
      restoreStore({ dataDir, file, force, clock: harness.clock });
    expect(() => restore(true)).toThrow(expect.objectContaining({ code: "store_locked" }));
    await harness.store[Symbol.asyncDispose]();
    expect(() => restore(false)).toThrow(expect.objectContaining({ code: "wrong_state" }));
    const { keptAs } = restore(true);
    expect(keptAs).toBe("berth.db.before-restore-2030-01-01T00-00-00-000Z");
    const store = await harness.reopen();
    expect(store.list("App").map((one) => one.metadata.name)).toEqual(["old"]);
    const kept = new Database(join(dataDir, keptAs ?? ""), { readonly: true });
    const names = kept.prepare("SELECT name FROM resources ORDER BY name").pluck().all();
    kept.close();
    expect(names).toEqual(["new", "old"]);
  });

  it("restore keeps the old store with the commits in its write-ahead log", async () => {
    const harness = open();
    const file = join(temporaryFolder("backup"), "berth.backup");
    await harness.store.backup(file);
    put(harness.store, "in-the-log");
    // The copied files are those that kill -9 leaves: the database and its log, without a checkpoint.
    const dataDir = join(temporaryFolder("backup"), "data");
    mkdirSync(dataDir);
    for (const name of ["berth.db", "berth.db-wal"]) {
      copyFileSync(join(harness.dataDir, name), join(dataDir, name));
    }
    const { keptAs } = restoreStore({ dataDir, file, force: true });
    const kept = new Database(join(dataDir, keptAs ?? ""));
    expect(kept.prepare("SELECT name FROM resources").pluck().all()).toEqual(["in-the-log"]);
    kept.close();
    rmSync(join(dataDir, "run"), { recursive: true });
    await using restored = openAt(dataDir);
    expect(restored.list("App")).toEqual([]);
  });

  it("after an interrupted restore, no store can be opened or created until the restore is repeated", async () => {
    const { store } = open();
    put(store, "web");
    const file = join(temporaryFolder("backup"), "berth.backup");
    await store.backup(file);
    const dataDir = join(temporaryFolder("backup"), "data");
    restoreStore({ dataDir, file });
    renameSync(join(dataDir, "berth.db"), join(dataDir, "berth.db.restoring"));
    expect(() => openAt(dataDir)).toThrow(
      expect.objectContaining({ code: "store_corrupt", hint: expect.stringContaining("restore") }),
    );
    expect(existsSync(join(dataDir, "berth.db"))).toBe(false);
    restoreStore({ dataDir, file });
    await using restored = openAt(dataDir);
    expect(restored.get("App", "web")).toBeDefined();
  });
});

describe("restore of an unusable file", () => {
  it.each([
    ["no file", "not_found", () => {}],
    ["text", "store_corrupt", (file: string) => writeFileSync(file, "no database")],
    ["another database", "store_corrupt", (file: string) => makeDatabase(file, () => {})],
    [
      "a backup cut short",
      "store_corrupt",
      (file: string, good: string) => {
        writeFileSync(file, readFileSync(good).subarray(0, 20_000));
      },
    ],
    [
      "a backup of a newer Berth",
      "wrong_state",
      (file: string, good: string) => {
        copyFileSync(good, file);
        makeDatabase(file, (db) => db.pragma(`user_version = ${migrations.length + 1}`));
      },
    ],
    [
      "a backup without its key",
      "store_corrupt",
      (file: string, good: string) => {
        copyFileSync(good, file);
        makeDatabase(file, (db) => db.exec("DELETE FROM backup_key"));
      },
    ],
  ] as const)("%s is refused with %s, and the existing store stays", async (_, code, make) => {
    const harness = open();
    put(harness.store, "web");
    const folder = temporaryFolder("backup");
    const good = join(folder, "good");
    await harness.store.backup(good);
    await harness.store[Symbol.asyncDispose]();
    const file = join(folder, "bad");
    make(file, good);
    expect(() => restoreStore({ dataDir: harness.dataDir, file, force: true })).toThrow(
      expect.objectContaining({ code }),
    );
    expect(readdirSync(harness.dataDir).toSorted()).toEqual([
      "berth.db",
      "holder.json",
      "run",
      "secret.key",
    ]);
    expect((await harness.reopen()).get("App", "web")).toBeDefined();
  });
});

describe("a backup of the store", () => {
  it("to an unusable path is refused, and leaves no files", async () => {
    const { store, dataDir } = open();
    const folder = temporaryFolder("backup");
    await expect(store.backup(join(folder, "missing", "x"))).rejects.toMatchObject({
      code: "invalid_request",
    });
    await expect(store.backup(join(dataDir, "berth.db"))).rejects.toMatchObject({
      code: "invalid_request",
    });
    mkdirSync(join(folder, "taken"));
    await expect(store.backup(join(folder, "taken"))).rejects.toMatchObject({ code: "internal" });
    expect(readdirSync(folder)).toEqual(["taken"]);
  });

  it("is completed before the store is closed", async () => {
    const { store } = open();
    for (let index = 0; index < 50; index += 1) put(store, `app-${index}`);
    const file = join(temporaryFolder("backup"), "berth.backup");
    const running = store.backup(file);
    await store[Symbol.asyncDispose]();
    await running;
    const dataDir = join(temporaryFolder("backup"), "data");
    restoreStore({ dataDir, file });
    await using restored = openAt(dataDir);
    expect(restored.list("App")).toHaveLength(50);
  });
});

function makeDatabase(file: string, change: (db: Database.Database) => void): void {
  const db = new Database(file);
  db.exec("CREATE TABLE IF NOT EXISTS something (x TEXT)");
  change(db);
  db.close();
}

describe("a backup", () => {
  const digest = "ab".repeat(32);
  const unused = "cd".repeat(32);
  const certificate =
    "ingress/storage/certificates/acme-v02.api.letsencrypt.org-directory/a.example.org/a.example.org.crt";

  async function backupOfFull() {
    const { store, dataDir } = open();
    apply(store, "built", { source: { archive: digest }, port: 80 });
    apply(store, "web", {
      image: "nginx:1",
      volumes: [
        { name: "data", path: "/data" },
        { hostPath: "/srv/www", path: "/www" },
      ],
    });
    // The archive is longer than one chunk of a backup.
    const archive = Buffer.alloc(2_500_000, "an archive ");
    writeIn(dataDir, `archives/${digest}.archive`, archive);
    writeIn(dataDir, `archives/${unused}.archive`, "of a deleted app");
    writeIn(dataDir, certificate, "PEM");
    writeIn(dataDir, certificate.replace(/crt$/, "key"), "KEY");
    writeIn(dataDir, "ingress/storage/acme/directory/users/me/me.key", "ACCOUNT");
    writeIn(dataDir, "ingress/storage/pki/authorities/local/root.crt", "ROOT");
    writeIn(dataDir, "ingress/storage/locks/issue.lock", "LOCK");
    const file = join(temporaryFolder("backup"), "full.backup");
    await store.backup(file);
    return { file, archive, store, dataDir };
  }

  it("contains the archives in use and the certificates, and lists what it leaves out", async () => {
    const { file, archive, store } = await backupOfFull();
    const manifest = readBackupManifest(file);
    expect(manifest).toMatchObject({
      format: 1,
      instance_id: store.instanceId,
      contains: {
        archives: [{ digest, bytes: archive.length }],
        certificates: ["a.example.org"],
        certificate_files: 4,
      },
    });
    const leftOut = manifest?.left_out.map(({ kind, name, app }) => [kind, name, app]);
    expect(leftOut).toEqual(
      expect.arrayContaining([
        ["image", "built", "built"],
        ["image", "nginx:1", "web"],
        ["volume", "data", "web"],
        ["host_path", "/srv/www", "web"],
        ["file", "specs folder", null],
      ]),
    );
  });

  it("names the owner of volumes and folders, and every app that mounts shared ones", async () => {
    const { store } = open();
    const folders = [{ name: "config", path: "/config", shared: true }];
    for (const name of ["blog-web", "blog-worker"])
      applyResource(
        store,
        "App",
        name,
        { image: "web:1", folders },
        { labels: { [STACK_LABEL]: "blog" } },
      );
    const file = join(temporaryFolder("backup"), "shared.backup");
    await store.backup(file);
    expect(readBackupManifest(file)?.left_out).toContainEqual({
      kind: "folder",
      name: "config",
      app: "blog-web",
      note: "of the stack blog, also mounted by blog-worker: save and restore its data yourself",
    });
  });

  it("restores archives and certificates, readable by their owner only, and keeps the previous ones", async () => {
    const { file, archive, store } = await backupOfFull();
    const target = temporaryFolder("backup");
    writeIn(target, "ingress/storage/certificates/old.crt", "OLD");
    const { instanceId } = restoreStore({ dataDir: target, file });
    expect(instanceId).toBe(store.instanceId);
    expect(readFileSync(join(target, `archives/${digest}.archive`)).equals(archive)).toBe(true);
    expect(existsSync(join(target, `archives/${unused}.archive`))).toBe(false);
    expect(readFileSync(join(target, certificate), "utf8")).toBe("PEM");
    expect(statSync(join(target, certificate)).mode & 0o777).toBe(0o600);
    expect(existsSync(join(target, "ingress/storage/locks"))).toBe(false);
    expect(existsSync(join(target, "ingress/storage/certificates/old.crt"))).toBe(false);
    const kept = readdirSync(join(target, "ingress")).filter((name) => name !== "storage");
    expect(kept).toEqual([expect.stringMatching(/^storage\.before-restore-/)]);
    expect(statSync(join(target, "berth.db")).size).toBeLessThan(1_000_000);
    expect(existsSync(join(target, "restoring"))).toBe(false);
    await using restored = openAt(target);
    expect(restored.instanceId).toBe(store.instanceId);
    expect(restored.holderId).not.toBe(store.holderId);
    const again = join(temporaryFolder("backup"), "again.backup");
    await restored.backup(again);
    expect(readBackupManifest(again)?.contains.archives).toHaveLength(1);
  });

  it("restores as a new instance, which owns neither images nor ports of the original instance", async () => {
    const { store } = open();
    put(store, "web");
    store.ownedImages.add("berth-old/web:1", "web");
    store.ports.lease("web", 0, 80);
    const file = join(temporaryFolder("backup"), "b");
    await store.backup(file);
    const target = temporaryFolder("backup");
    const { instanceId } = restoreStore({ dataDir: target, file, newInstance: true });
    expect(instanceId).toMatch(/^[0-9a-f]{8}$/);
    expect(instanceId).not.toBe(store.instanceId);
    await using restored = openAt(target);
    expect(restored.instanceId).toBe(instanceId);
    expect(restored.list("App").map(({ metadata }) => metadata.name)).toEqual(["web"]);
    expect(restored.ownedImages.list("web")).toEqual([]);
    expect(restored.ports.lease("web", 0, 80)).not.toBe(store.ports.lease("web", 0, 80));
  });

  it("is distinguished from other files and folders, and from a damaged backup", async () => {
    const { file } = await backupOfFull();
    const other = join(temporaryFolder("backup"), "notes.txt");
    writeFileSync(other, "a text");
    const database = join(temporaryFolder("backup"), "other.db");
    new Database(database).exec("CREATE TABLE a (b)").close();
    for (const path of [other, database, temporaryFolder("backup")])
      expect(() => restoreStore({ dataDir: temporaryFolder("backup"), file: path })).toThrow(
        "the file is not a backup of Berth",
      );
    const bytes = readFileSync(file);
    writeFileSync(file, bytes.subarray(0, 5000));
    expect(() => restoreStore({ dataDir: temporaryFolder("backup"), file })).toThrow(/damaged/);
  });

  it("is not restored, not even in part, if one of its files is damaged or has a path outside of the data directory", async () => {
    for (const damage of [
      "UPDATE backup_chunks SET data = x'00' WHERE number = 1",
      "UPDATE backup_files SET path = 'ingress/storage/../../../evil'",
      "UPDATE backup_files SET path = '/etc/evil'",
    ]) {
      const { file } = await backupOfFull();
      const db = new Database(file);
      if (damage.includes("backup_files")) db.exec("DELETE FROM backup_files WHERE rowid > 1");
      db.exec(damage);
      db.close();
      const target = temporaryFolder("backup");
      expect(() => restoreStore({ dataDir: target, file })).toThrow(/damaged/);
      expect(readdirSync(target)).toEqual(["run"]);
    }
  });
});

describe("the id of a data directory", () => {
  it("stays the same when the directory is renamed, and a copy gets another id", async () => {
    const folder = temporaryFolder("backup");
    const one = join(folder, "one");
    const first = openAt(one);
    const id = first.holderId;
    await first[Symbol.asyncDispose]();
    cpSync(one, join(folder, "copy"), { recursive: true, preserveTimestamps: true });
    renameSync(one, join(folder, "renamed"));
    await using copy = openAt(join(folder, "copy"));
    await using renamed = openAt(join(folder, "renamed"));
    expect(renamed.holderId).toBe(id);
    expect(copy.holderId).not.toBe(id);
    expect(copy.instanceId).toBe(renamed.instanceId);
  });
});
