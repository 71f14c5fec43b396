import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { resolveLedgerPaths } from "../../../../src/assistant/ledger/ledger-paths.ts";
import { LedgerWriter } from "../../../../src/assistant/ledger/ledger-writer.ts";
import { verifyInclusion } from "../../../../src/assistant/ledger/merkle-proof.ts";
import { eraseOffline } from "../../../../src/assistant/ledger/offline-erase.ts";
import { OfflineLedger } from "../../../../src/assistant/ledger/offline-ledger.ts";
import { timestamp } from "../../../../src/base/clock.ts";
import {
  appendEntries,
  createStateDirectory,
  editDatabase,
  openTestLedger,
  SettableClock,
  verifyLedgerAt,
} from "../../../support/ledger-fixtures.ts";

const DAY_MS = 86_400_000;

function storedTexts(dir: string): number[] {
  using ledger = OfflineLedger.open(dir);
  return ledger
    .tail(100_000)
    .filter(({ plain }) => plain !== undefined)
    .map(({ body }) => body.seq);
}

function erasures(dir: string): unknown[] {
  using ledger = OfflineLedger.open(dir);
  return ledger.tail(100_000, "ledger.erased").map(({ body }) => body.fields);
}

/** Proves each entry, and verifies the proof. */
function proveAll(dir: string): void {
  using ledger = OfflineLedger.open(dir);
  const { size, root } = ledger.readCheckpoint();
  for (let seq = 0; seq < size; seq += 1) {
    const proof = ledger.proveInclusion(seq);
    const leaf = Buffer.from(proof?.leaf ?? "", "hex");
    const isProved = verifyInclusion({ leaf, seq, size, proof: proof?.path ?? [], root });
    expect([seq, isProved]).toEqual([seq, true]);
  }
}

it("an erasure removes the texts that are older than a time, even if the clock was set back, and every proof stays valid", async () => {
  const dir = createStateDirectory();
  const clock = new SettableClock();
  await using ledger = await openTestLedger(dir, clock);
  const now = clock.now();
  for (const [count, daysAgo] of [
    [6, 3],
    [3, 0],
    [3, 2],
    [3, 0],
  ] as const) {
    clock.offsetMs = -daysAgo * DAY_MS;
    await appendEntries(ledger, count);
  }
  const before = now - DAY_MS;
  expect(storedTexts(dir)).toEqual([1, 2, 4, 5, 7, 8, 10, 11, 13, 14]);
  expect(await ledger.eraseBefore(before)).toEqual({ texts: 6, entries: 2, first: 1, last: 11 });
  expect(storedTexts(dir)).toEqual([7, 8, 13, 14]);
  expect(erasures(dir)).toEqual([
    { before: timestamp(before), from: 1, texts: 4, to: 5 },
    { before: timestamp(before), from: 10, texts: 2, to: 11 },
  ]);
  expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 4, erased: 6 });
  proveAll(dir);
  const { size } = ledger.state;
  expect(await ledger.eraseBefore(before)).toEqual({
    texts: 0,
    entries: 0,
    first: null,
    last: null,
  });
  expect(ledger.state.size).toBe(size);
});

it("the verification reports as tampering an erased text that is stored again, and a missing text of an entry newer than the erased ones", async () => {
  const dir = createStateDirectory();
  {
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 4);
    await ledger.eraseBefore(Date.now() + 1);
    await appendEntries(ledger, 3);
  }
  const put = (sql: string) => editDatabase(dir, (db) => db.exec(sql));
  expect(verifyLedgerAt(dir).status).toBe("whole");
  put("INSERT INTO sealed VALUES (4, zeroblob(32), '\"x\"')");
  expect(verifyLedgerAt(dir).problems.map(({ message }) => message)).toContain(
    "the sealed text of entry 4 was erased, but is stored again",
  );
  put("DELETE FROM sealed WHERE seq IN (4, 6)");
  expect(verifyLedgerAt(dir).problems).toEqual([
    {
      seq: 6,
      message: "the sealed text of entry 6 is missing, and no entry records its erasure",
    },
  ]);
});

it("during an erasure, entries can be appended between its commits, each of which leaves an intact ledger", async () => {
  const dir = createStateDirectory();
  {
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 3_600);
  }
  const copies: string[] = [];
  {
    const files = resolveLedgerPaths(dir);
    const writer = LedgerWriter.open(files);
    const time = timestamp(Date.now() + 1);
    for (let after: number | undefined = -1; after !== undefined; ) {
      // A copy of all files stands for a crash at this point, because every change is one commit.
      const copy = createStateDirectory();
      cpSync(dir, copy, {
        recursive: true,
        filter: (file) => !file.endsWith("/reserve") && !file.includes("/lock.db"),
      });
      copies.push(copy);
      after = writer.eraseOldTexts({ before: time, after, time }).next;
      writer.append([
        { name: "memory.set", time, fields: "{}", sealed: undefined, dispatch: undefined },
      ]);
    }
    writer.close();
  }
  expect(erasures(dir)).toHaveLength(3);
  expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 0, erased: 2_400 });
  expect(copies).toHaveLength(3);
  for (const copy of copies) {
    expect(verifyLedgerAt(copy)).toMatchObject({ status: "whole" });
    await using ledger = await openTestLedger(copy);
    await ledger.eraseBefore(Date.now() + 1);
    await appendEntries(ledger, 1);
    expect(verifyLedgerAt(copy)).toMatchObject({ status: "whole", sealed: 1, erased: 2_400 });
  }
});

it("eraseOffline() erases texts without the daemon, does nothing while the daemon runs, and throws without a ledger", async () => {
  const dir = createStateDirectory();
  {
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 3);
    expect(eraseOffline(dir, Date.now() + 1, Date.now())).toBeUndefined();
  }
  expect(() => eraseOffline(createStateDirectory(), 1, 1)).toThrow("there is no ledger");
  const checkpoint = join(dir, "ledger/checkpoint");
  cpSync(checkpoint, `${checkpoint}.kept`);
  expect(eraseOffline(dir, Date.now() + 1, Date.now())).toMatchObject({ texts: 2, entries: 1 });
  expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", erased: 2, size: 5 });
  await using ledger = await openTestLedger(dir);
  expect((await appendEntries(ledger, 1)).map(({ seq }) => seq)).toEqual([6]);
});

it("an erasure without the daemon fails if a reader keeps the erased bytes in the files, and the next start removes them", async () => {
  const dir = createStateDirectory();
  {
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 3);
  }
  const file = join(dir, "ledger/ledger.db");
  const reader = new Database(file, { readonly: true });
  // A statement that is not read to its end keeps the snapshot of the reader open.
  const rows = reader.prepare("SELECT seq FROM entry").iterate();
  rows.next();
  expect(() => eraseOffline(dir, Date.now() + 1, Date.now())).toThrow(
    "a program that reads the ledger keeps their bytes in its files",
  );
  rows.return?.();
  reader.close();
  expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 0, erased: 2 });
  await using _ = await openTestLedger(dir);
  expect(readFileSync(file).includes("prompt ")).toBe(false);
});
