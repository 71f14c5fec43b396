import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrations } from "../../../src/store/migrations.ts";
import { restoreStore } from "../../../src/store/restore.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { applyResource, openTestStore, type TestStore } from "../../support/test-store.ts";

let original: TestStore;
/** A valid backup with one archive and one certificate. */
let good = "";
const digest = "ab".repeat(32);
beforeAll(async () => {
  original = openTestStore();
  applyResource(original.store, "App", "web", { source: { archive: digest }, port: 80 });
  for (const [folder, file] of [
    ["archives", `${digest}.archive`],
    ["ingress/storage/certificates", "a.crt"],
  ] as const) {
    mkdirSync(join(original.dataDir, folder), { recursive: true });
    writeFileSync(join(original.dataDir, folder, file), "content ".repeat(1000));
  }
  good = join(original.dataDir, "good.backup");
  await original.store.backup(good);
});
afterAll(() => original[Symbol.asyncDispose]());

/** Returns a copy of the valid backup that `change` has changed. */
function change(sql: string): string {
  const file = join(temporaryFolder("backup"), "changed.backup");
  copyFileSync(good, file);
  const db = new Database(file);
  db.exec(sql);
  db.close();
  return file;
}

/** A backup of an older Berth has no digest. */
const noDigest = "DROP TABLE backup_digest";
const filePath = (path: string) => `UPDATE backup_files SET path = '${path}' WHERE rowid = 1`;
const addFile = (path: string) =>
  `INSERT INTO backup_files VALUES ('${path}', 0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')`;

describe("a hostile backup", () => {
  it.each([
    ["with a trigger", "CREATE TRIGGER t AFTER DELETE ON changes BEGIN DELETE FROM meta; END"],
    ["with a view", "CREATE VIEW v AS SELECT key FROM backup_key"],
    ["without a table of the store", "DROP TABLE meta"],
    ["of schema version 0", "PRAGMA user_version = 0"],
    ["of a negative schema version", "PRAGMA user_version = -1"],
    ["with an endless view as its files", endlessFiles()],
    ["without an instance id", `${noDigest}; DELETE FROM meta WHERE key = 'instanceId'`],
    [
      "with a path as its instance id",
      `${noDigest}; UPDATE meta SET value = '../../x' WHERE key = 'instanceId'`,
    ],
    ["with a changed letter of a value", "UPDATE resources SET name = 'wex' WHERE name = 'web'"],
    ["without a row", "DELETE FROM resources"],
    ["with a short key", "UPDATE backup_key SET key = x'00'"],
    ["with a manifest that is no JSON", "UPDATE backup_manifest SET json = '{'"],
    ["with another manifest", `UPDATE backup_manifest SET json = '{"format":1,"contains":null}'`],
    ["with a path to the store", filePath("berth.db")],
    ["with a path to the key", filePath("archives/../secret.key")],
    ["with an absolute path", filePath("/etc/cron.d/berth")],
    ["with a path through a parent", filePath("ingress/storage/../../../../etc/x")],
    ["with an empty part of a path", filePath("ingress/storage//x")],
    ["with a name that is too long", filePath(`ingress/storage/${"x".repeat(300)}`)],
    ["with a file as a folder", addFile("ingress/storage/certificates/a.crt/b")],
    ["with a folder as a file", addFile("ingress/storage/certificates")],
    ["with a missing chunk", "DELETE FROM backup_chunks"],
  ])("%s is refused, and nothing is written", (_, sql) => {
    const dataDir = temporaryFolder("restored");
    writeFileSync(join(dataDir, "kept.txt"), "kept");
    const file = change(sql);
    expect(() => restoreStore({ dataDir, file })).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^store_corrupt$/) }),
    );
    expect(readdirSync(dataDir).toSorted()).toEqual(["kept.txt", "run"]);
    expect(existsSync("/etc/cron.d/berth")).toBe(false);
  });

  it("with a flipped byte is refused, or restores what it contained", () => {
    const bytes = readFileSync(good);
    for (let step = 0; step < 16; step += 1) {
      const at = Math.floor((bytes.length / 16) * step) + (step % 7);
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] ?? 0) ^ 0x10;
      const file = join(temporaryFolder("backup"), "flipped.backup");
      writeFileSync(file, flipped);
      const dataDir = temporaryFolder("restored");
      let code: unknown;
      try {
        restoreStore({ dataDir, file });
      } catch (error) {
        code = error instanceof Error && "code" in error ? error.code : error;
      }
      if (code !== undefined)
        expect([at, code]).toEqual([
          at,
          expect.stringMatching(/store_corrupt|wrong_state|internal/),
        ]);
      expect(readdirSync(dataDir).includes("berth.db")).toBe(code === undefined);
      expect(existsSync(join(dataDir, "berth.db.restoring"))).toBe(false);
    }
  });

  it("that claims to be huge is refused without the use of that much space", () => {
    const file = join(temporaryFolder("backup"), "huge.backup");
    writeFileSync(file, readFileSync(good));
    // The header claims more pages than the file has.
    const header = readFileSync(file);
    header.writeUInt32BE(0x7fffffff, 28);
    writeFileSync(file, header);
    expect(() => restoreStore({ dataDir: temporaryFolder("restored"), file })).toThrow(/damaged/);
  });
});

describe("an unusual backup", () => {
  it("is read through a link, and its restored files are those of the caller only", () => {
    const link = join(temporaryFolder("backup"), "link");
    symlinkSync(good, link);
    const dataDir = temporaryFolder("restored");
    expect(restoreStore({ dataDir, file: link }).manifest).not.toBeNull();
    for (const file of ["berth.db", "secret.key", `archives/${digest}.archive`])
      expect(statSync(join(dataDir, file)).mode & 0o777).toBe(0o600);
    expect(existsSync(good)).toBe(true);
  });

  it("that is the file of an interrupted restore is refused, and stays", () => {
    const dataDir = temporaryFolder("restored");
    const staged = join(dataDir, "berth.db.restoring");
    copyFileSync(good, staged);
    expect(() => restoreStore({ dataDir, file: staged })).toThrow(
      expect.objectContaining({ code: "invalid_request" }),
    );
    expect(readFileSync(staged).equals(readFileSync(good))).toBe(true);
  });

  it("replaces no file outside of the data directory if a link is where the restore writes", () => {
    const outside = temporaryFolder("outside");
    const victim = join(outside, "victim");
    writeFileSync(victim, "victim");
    const dataDir = temporaryFolder("restored");
    for (const name of ["berth.db.restoring", "berth.db.restoring-wal", "restoring", "secret.key"])
      symlinkSync(name === "restoring" ? outside : victim, join(dataDir, name));
    restoreStore({ dataDir, file: good });
    expect(readFileSync(victim, "utf8")).toBe("victim");
    expect(readdirSync(outside)).toEqual(["victim"]);
  });

  it("causes an error with a hint, and without a path, if the data directory cannot be used", () => {
    const dataDir = join(temporaryFolder("restored"), "file");
    writeFileSync(dataDir, "");
    expect(() => restoreStore({ dataDir, file: good })).toThrow(
      expect.objectContaining({
        message: "a file of the store cannot be used (EEXIST)",
        hint: expect.stringContaining("may write to it"),
      }),
    );
  });

  it("of an older Berth restores the store only", () => {
    const file = change(
      `${noDigest}; DROP TABLE backup_manifest; DROP TABLE backup_files; DROP TABLE backup_chunks`,
    );
    expect(restoreStore({ dataDir: temporaryFolder("restored"), file })).toMatchObject({
      manifest: null,
      instanceId: original.store.instanceId,
    });
  });

  it("of a newer Berth is refused with the version", () => {
    const file = change(`PRAGMA user_version = ${migrations.length + 1}`);
    expect(() => restoreStore({ dataDir: temporaryFolder("restored"), file })).toThrow(
      /newer version/,
    );
  });

  it("that was cut at any length is refused", () => {
    const { size } = statSync(good);
    for (const part of [0, 0.001, 0.1, 0.5, 0.9, 0.999]) {
      const file = join(temporaryFolder("backup"), "cut.backup");
      copyFileSync(good, file);
      truncateSync(file, Math.floor(size * part));
      expect(() => restoreStore({ dataDir: temporaryFolder("restored"), file })).toThrow(
        expect.objectContaining({ code: "store_corrupt" }),
      );
    }
  });
});

function endlessFiles(): string {
  return `DROP TABLE backup_files;
    CREATE VIEW backup_files AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
      SELECT 'ingress/storage/' || i AS path, 0 AS bytes, '' AS sha256 FROM n`;
}
