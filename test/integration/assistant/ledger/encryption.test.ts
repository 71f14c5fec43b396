import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { FoundKey, KeySource } from "../../../../src/assistant/key-sources/port.ts";
import type { OpenLedger } from "../../../../src/assistant/ledger/ledger.ts";
import { resolveLedgerPaths } from "../../../../src/assistant/ledger/ledger-paths.ts";
import { LedgerWriter } from "../../../../src/assistant/ledger/ledger-writer.ts";
import { OfflineLedger } from "../../../../src/assistant/ledger/offline-ledger.ts";
import { createTextKeyPair } from "../../../../src/assistant/ledger/text-cipher.ts";
import { LostKeyError, TextProtection } from "../../../../src/assistant/ledger/text-protection.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import {
  appendEntries,
  createStateDirectory,
  editDatabase,
  openTestLedger,
  protectTestLedger,
  verifyLedgerAt,
} from "../../../support/ledger-fixtures.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const CANARY = "prompt ";

function findFilesWith(dir: string, text: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => join(file.parentPath, file.name))
    .filter((file) => readFileSync(file).includes(text));
}

function readTexts(dir: string): (string | undefined)[] {
  using ledger = OfflineLedger.open(dir);
  ledger.unlockTexts({ state: "key", key: readFileSync(join(dir, "ledger-text-key")) });
  return ledger
    .tail(100_000, "inference.generate")
    .map(({ plain, lockedBecause }) => plain ?? lockedBecause);
}

const promptTexts = (...numbers: number[]) =>
  numbers.map((number) => JSON.stringify({ prompt: `prompt ${number}` }));

async function createProtected(count: number): Promise<string> {
  const dir = createStateDirectory();
  await using ledger = await openTestLedger(dir);
  await protectTestLedger(ledger, dir);
  await appendEntries(ledger, count);
  return dir;
}

describe("an encrypted text of the ledger", () => {
  it("is in no file as plain text, nor is its salt, and can be read and checked with the key", async () => {
    const dir = await createProtected(6);
    expect(findFilesWith(dir, CANARY)).toEqual([]);
    expect(readTexts(dir)).toEqual(promptTexts(0, 1, 3, 4));
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 4, unchecked: 0 });
    editDatabase(dir, (db) =>
      expect(db.prepare("SELECT count(*) FROM sealed").pluck().get()).toBe(0),
    );
    {
      await using ledger = await openTestLedger(dir);
      await appendEntries(ledger, 1, 6);
      expect(await ledger.eraseBefore(Date.now() + 1)).toMatchObject({ texts: 5 });
    }
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 0, erased: 5 });
  });

  it("is written even while the key is locked, because only reading needs the key", async () => {
    const dir = await createProtected(2);
    renameSync(join(dir, "ledger-text-key"), join(dir, "away"));
    {
      await using ledger = await openTestLedger(dir);
      await appendEntries(ledger, 2, 3);
    }
    expect(findFilesWith(dir, CANARY)).toEqual([]);
    using locked = OfflineLedger.open(dir);
    locked.unlockTexts({ state: "unavailable", why: "the keyring is locked" });
    expect(locked.verify()).toMatchObject({
      status: "whole",
      unchecked: 4,
      uncheckedReason: "the keyring is locked",
    });
    expect(locked.tail(1)[0]).toMatchObject({ lockedBecause: "the keyring is locked" });
    renameSync(join(dir, "away"), join(dir, "ledger-text-key"));
    expect(readTexts(dir)).toEqual(promptTexts(0, 1, 3, 4));
  });

  it("whose key is lost makes the verification report the lost key, unless an entry is damaged too", async () => {
    const dir = await createProtected(3);
    const verify = (key: Buffer | undefined) => {
      using ledger = OfflineLedger.open(dir);
      ledger.unlockTexts(key ? { state: "key", key } : { state: "empty" });
      return ledger.verify();
    };
    expect(verify(undefined)).toMatchObject({
      status: "key",
      reason: expect.stringMatching(
        /^2 sealed texts cannot be decrypted: the key of the texts is missing/,
      ),
    });
    expect(verify(Buffer.alloc(32, 1))).toMatchObject({
      status: "key",
      reason: expect.stringContaining("is not the key of these texts"),
    });
    editDatabase(dir, (db) => db.exec("DELETE FROM entry WHERE seq = 1"));
    expect(verify(undefined)).toMatchObject({ status: "tampered", firstBad: 1 });
  });
});

/** Flips the last bit of a column of the first row. */
function flip(table: string, column: string) {
  return (db: Database.Database) => {
    const value = db.prepare<[], Buffer>(`SELECT ${column} FROM ${table}`).pluck().get();
    if (!value) throw new Error("there is no row");
    value[value.length - 1] = (value.at(-1) ?? 0) ^ 1;
    db.prepare(`UPDATE ${table} SET ${column} = ?`).run(value);
  };
}

describe("a change of an encrypted text", () => {
  it.each<[string, (db: Database.Database) => unknown]>([
    ["a changed bit", flip("encrypted_text", "box")],
    ["another key", (db) => db.exec("UPDATE encrypted_text SET key_id = 7 WHERE seq = 1")],
    ["a changed key", flip("text_key", "wrapped")],
    ["a deleted key", (db) => db.exec("DELETE FROM text_key")],
    ["a shorter text", (db) => db.exec("UPDATE encrypted_text SET box = x'00' WHERE seq = 1")],
    [
      "a swapped text",
      (db) =>
        db.exec(`UPDATE encrypted_text SET seq = -1 WHERE seq = 1;
                 UPDATE encrypted_text SET seq = 1 WHERE seq = 2;
                 UPDATE encrypted_text SET seq = 2 WHERE seq = -1`),
    ],
    ["a deleted text", (db) => db.exec("DELETE FROM encrypted_text WHERE seq = 1")],
    ["an added text", (db) => db.exec("INSERT INTO encrypted_text VALUES (0, 1, x'00')")],
  ])("is detected by the verification: %s", async (_, change) => {
    const dir = await createProtected(3);
    expect(verifyLedgerAt(dir).status).toBe("whole");
    editDatabase(dir, change);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "tampered" });
    expect(verifyLedgerAt(dir).firstBad).toBeLessThanOrEqual(1);
  });

  it("is reported if the key pair was deleted", async () => {
    const dir = await createProtected(3);
    editDatabase(dir, (db) => db.exec("DELETE FROM text_key_pair"));
    expect(verifyLedgerAt(dir)).toMatchObject({
      status: "key",
      reason: expect.stringContaining("the key pair of the texts is missing"),
    });
  });

  it("is detected if the public key was replaced, so that another program can read new texts", async () => {
    const dir = await createProtected(3);
    const { publicKey } = createTextKeyPair("file", Buffer.alloc(32), "berth.local/x");
    editDatabase(dir, (db) => db.prepare("UPDATE text_key_pair SET public_key = ?").run(publicKey));
    expect(() => verifyLedgerAt(dir)).toThrow("public key of the ledger's texts was replaced");
  });
});

describe("the texts of a ledger from before the encryption", () => {
  it("are encrypted in several commits, each of which leaves an intact ledger; a restart continues an interrupted encryption", async () => {
    const dir = createStateDirectory();
    {
      await using ledger = await openTestLedger(dir);
      await appendEntries(ledger, 1_600);
    }
    expect(findFilesWith(dir, CANARY)).not.toEqual([]);
    const master = Buffer.alloc(32, 9);
    const copies: string[] = [];
    {
      const writer = LedgerWriter.open(resolveLedgerPaths(dir));
      const { ledgerId } = writer.readTextKeys();
      writer.saveTextKeys(createTextKeyPair("file", master, ledgerId));
      writeFileSync(join(dir, "ledger-text-key"), master, { mode: 0o600 });
      for (let texts = 1; texts > 0; texts = writer.encryptSomeTexts()) {
        // A copy of all files stands for a crash at this point, because every change is one commit.
        const copy = createStateDirectory();
        cpSync(dir, copy, {
          recursive: true,
          filter: (file) => !file.endsWith("/reserve") && !file.includes("/lock.db"),
        });
        copies.push(copy);
      }
      writer.close();
    }
    expect(copies).toHaveLength(4);
    expect(findFilesWith(dir, CANARY)).toEqual([]);
    for (const copy of copies) {
      expect(verifyLedgerAt(copy)).toMatchObject({ status: "whole", sealed: 1_067, unchecked: 0 });
      await using ledger = await openTestLedger(copy);
      await protectTestLedger(ledger, copy);
      await appendEntries(ledger, 1);
      expect(findFilesWith(copy, CANARY)).toEqual([]);
      expect(verifyLedgerAt(copy)).toMatchObject({ status: "whole", sealed: 1_068 });
    }
  });

  it("can be verified and read before a daemon has migrated them", async () => {
    const dir = createStateDirectory();
    {
      await using ledger = await openTestLedger(dir);
      await appendEntries(ledger, 3);
    }
    editDatabase(dir, (db) =>
      db.exec(`DROP TABLE encrypted_text; DROP TABLE text_key; DROP TABLE text_key_pair;
               PRAGMA user_version = 1`),
    );
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 2 });
    using old = OfflineLedger.open(dir);
    expect(old.textKeySource).toBeUndefined();
    expect(old.tail(1, "inference.generate")[0]?.plain).toBe('{"prompt":"prompt 1"}');
    expect(old.countOldTexts("9999")).toBe(2);
    await using ledger = await openTestLedger(dir);
    await protectTestLedger(ledger, dir);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 2, unchecked: 0 });
  });
});

/** A source of the master key whose state a test sets. */
class TestSource implements KeySource {
  readonly name = "secret-service";
  found: FoundKey = { state: "locked", why: "the keyring is locked" };

  async probe(): Promise<FoundKey> {
    const { found } = this;
    return found.state === "key" ? { state: "key", key: Buffer.from(found.key) } : found;
  }

  async store(key: Buffer): Promise<void> {
    this.found = { state: "key", key: Buffer.from(key) };
  }
}

function protect(ledger: OpenLedger, source: KeySource, clock = new VirtualClock()) {
  return new TextProtection({ ledger, sources: () => [source], clock, logger: silentLogger });
}

describe("the protection of the texts", () => {
  it("waits for a locked key, and then encrypts what was written meanwhile", async () => {
    const dir = createStateDirectory();
    const clock = new VirtualClock();
    const source = new TestSource();
    await using ledger = await openTestLedger(dir);
    await using protection = protect(ledger, source, clock);
    protection.start();
    await appendEntries(ledger, 3);
    expect(findFilesWith(dir, CANARY)).not.toEqual([]);
    source.found = { state: "empty" };
    await expect
      .poll(async () => {
        await clock.advance(60_000);
        return findFilesWith(dir, CANARY);
      })
      .toEqual([]);
  });

  it("uses a key that an interrupted start has stored, and keeps the key pair at later starts", async () => {
    const dir = createStateDirectory();
    const source = new TestSource();
    source.found = { state: "key", key: Buffer.alloc(32, 3) };
    await using ledger = await openTestLedger(dir);
    await protect(ledger, source).protect();
    const { pair } = await ledger.readTextKeys();
    await protect(ledger, source).protect();
    expect((await ledger.readTextKeys()).pair).toEqual(pair);
    expect(source.found).toEqual({ state: "key", key: Buffer.alloc(32, 3) });
  });

  it("ends between two commits when the daemon stops, and so does an erasure", async () => {
    const dir = createStateDirectory();
    const source = new TestSource();
    source.found = { state: "empty" };
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 3);
    const protection = protect(ledger, source);
    await protection[Symbol.asyncDispose]();
    await expect(protection.protect()).rejects.toThrow("aborted");
    await expect(ledger.eraseBefore(Date.now() + 1, AbortSignal.abort())).rejects.toThrow(
      "aborted",
    );
    expect(findFilesWith(dir, CANARY)).not.toEqual([]);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 2, erased: 0 });
  });

  it("leaves texts that are not encrypted yet readable while the key is lost, and encrypts them when the key is back", async () => {
    const dir = createStateDirectory();
    const source = new TestSource();
    source.found = { state: "empty" };
    await using ledger = await openTestLedger(dir);
    await protect(ledger, source).protect();
    await appendEntries(ledger, 3);
    const readable = () => {
      let count: unknown;
      editDatabase(dir, (db) => {
        count = db.prepare("SELECT count(*) FROM sealed").pluck().get();
      });
      return count;
    };
    // A row that is still readable, as an interrupted migration leaves it.
    editDatabase(dir, (db) => db.exec("INSERT INTO sealed VALUES (3, x'00', 'not encrypted yet')"));
    const { found } = source;
    for (const lost of [{ state: "empty" }, { state: "key", key: Buffer.alloc(32) }] as const) {
      source.found = lost;
      await expect(protect(ledger, source).protect()).rejects.toThrow(LostKeyError);
      expect(readable()).toBe(1);
    }
    source.found = found;
    await protect(ledger, source).protect();
    expect(readable()).toBe(0);
  });

  it("reports a lost key if the key pair was deleted from the database, because the encrypted texts still need it", async () => {
    const dir = await createProtected(3);
    editDatabase(dir, (db) => db.exec("DELETE FROM text_key_pair"));
    const source = new TestSource();
    source.found = { state: "key", key: Buffer.alloc(32, 3) };
    await using ledger = await openTestLedger(dir);
    await expect(protect(ledger, source).protect()).rejects.toThrow(LostKeyError);
  });

  it("makes a new key without a restart when a lost one is not needed any more", async () => {
    const dir = createStateDirectory();
    const clock = new VirtualClock();
    const source = new TestSource();
    source.found = { state: "empty" };
    await using ledger = await openTestLedger(dir);
    await protect(ledger, source).protect();
    await appendEntries(ledger, 3);
    const { pair } = await ledger.readTextKeys();
    source.found = { state: "empty" };
    await using protection = protect(ledger, source, clock);
    protection.start();
    await ledger.eraseBefore(Date.now() + 1);
    await expect
      .poll(async () => {
        await clock.advance(60_000);
        return (await ledger.readTextKeys()).pair;
      })
      .not.toEqual(pair);
  });

  it("replaces a lost key as soon as no text needs it, and not before", async () => {
    const dir = createStateDirectory();
    const source = new TestSource();
    source.found = { state: "empty" };
    await using ledger = await openTestLedger(dir);
    await protect(ledger, source).protect();
    await appendEntries(ledger, 3);
    const { pair } = await ledger.readTextKeys();
    for (const found of [{ state: "empty" }, { state: "key", key: Buffer.alloc(32) }] as const) {
      source.found = found;
      await expect(protect(ledger, source).protect()).rejects.toThrow(LostKeyError);
      expect((await ledger.readTextKeys()).pair).toEqual(pair);
      expect(source.found).toEqual(found);
    }
    await ledger.eraseBefore(Date.now() + 1);
    await protect(ledger, source).protect();
    expect((await ledger.readTextKeys()).pair).not.toEqual(pair);
    await appendEntries(ledger, 1);
    using offline = OfflineLedger.open(dir);
    offline.unlockTexts({ state: "key", key: Buffer.alloc(32) });
    expect(offline.verify()).toMatchObject({ status: "whole", sealed: 1, unchecked: 0 });
  });
});

it("a copy of the ledger without the key file contains no readable text, and verifies", async () => {
  const dir = await createProtected(3);
  const copy = createStateDirectory();
  cpSync(join(dir, "ledger"), join(copy, "ledger"), { recursive: true });
  rmSync(join(copy, "ledger/reserve"));
  expect(findFilesWith(copy, CANARY)).toEqual([]);
  expect(verifyLedgerAt(copy)).toMatchObject({ status: "whole", unchecked: 2 });
});
