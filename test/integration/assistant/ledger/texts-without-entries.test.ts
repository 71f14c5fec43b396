import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { resolveLedgerPaths } from "../../../../src/assistant/ledger/ledger-paths.ts";
import { LedgerWriter } from "../../../../src/assistant/ledger/ledger-writer.ts";
import { readFileIfExists } from "../../../../src/assistant/ledger/read-file-if-exists.ts";
import { readVerifier } from "../../../../src/assistant/ledger/signing-key.ts";
import { verifyLedger } from "../../../../src/assistant/ledger/verify-ledger.ts";
import {
  appendEntries,
  createStateDirectory,
  editDatabase,
  openTestLedger,
  protectTestLedger,
  verifyLedgerAt,
} from "../../../support/ledger-fixtures.ts";

/**
 * The verification compares the number of texts that belong to entries with the number of stored texts, and searches for
 * texts without an entry only if the two differ. These tests change one of the numbers, or both.
 */

/** Creates a ledger whose texts are all in `table`. Resolves to its directory and the number of its entries. */
async function createLedger(
  table: string,
): Promise<{ readonly dir: string; readonly size: number }> {
  const dir = createStateDirectory();
  await using ledger = await openTestLedger(dir);
  if (table === "encrypted_text") await protectTestLedger(ledger, dir);
  await appendEntries(ledger, 9);
  return { dir, size: ledger.state.size };
}

const readMessages = (dir: string) => verifyLedgerAt(dir).problems.map(({ message }) => message);
const orphan = (seq: number) => `a sealed text is stored for entry ${seq}, which is missing`;
const missing = (seq: number) =>
  `the sealed text of entry ${seq} is missing, and no entry records its erasure`;

/** The columns of each table of texts, after the entry's number. */
const tables = [
  ["sealed", "salt, plain"],
  ["encrypted_text", "key_id, box"],
] as const;

describe.each(tables)("in the table %s", (table, columns) => {
  /** Copies the text of entry 1 to `seq`, which may be the number of no entry. */
  const copyTo = (seq: number) =>
    `INSERT INTO ${table} SELECT ${seq}, ${columns} FROM ${table} WHERE seq = 1`;

  it("a text without an entry is reported in addition to all texts of entries, and also in place of one", async () => {
    const { dir, size } = await createLedger(table);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", sealed: 6 });
    editDatabase(dir, (db) => db.exec(copyTo(size + 2)));
    expect(readMessages(dir)).toEqual([orphan(size + 2)]);
    editDatabase(dir, (db) => db.exec(`DELETE FROM ${table} WHERE seq = 4`));
    expect(readMessages(dir)).toEqual([missing(4), orphan(size + 2)]);
  });

  it("a text without an entry is reported after all other texts were erased", async () => {
    const { dir } = await createLedger(table);
    editDatabase(dir, (db) => db.exec(copyTo(100)));
    {
      await using ledger = await openTestLedger(dir);
      await ledger.eraseBefore(Date.now() + 1_000);
    }
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "tampered", sealed: 0, erased: 6 });
    expect(readMessages(dir)).toEqual([orphan(100)]);
  });
});

it("a text without an entry is reported if another table lacks a text", async () => {
  const { dir, size } = await createLedger("encrypted_text");
  editDatabase(dir, (db) =>
    db.exec(`INSERT INTO sealed VALUES (${size}, zeroblob(32), '1');
             DELETE FROM encrypted_text WHERE seq = 1`),
  );
  expect(readMessages(dir)).toEqual([missing(1), orphan(size)]);
});

describe("a writer that commits between the first and the last query of a verification", () => {
  /** Verifies the ledger, and calls `write` when the snapshot has been opened. */
  const verifyDuring = (dir: string, write: () => void) => {
    const paths = resolveLedgerPaths(dir);
    const db = new Database(paths.db, { readonly: true });
    try {
      return verifyLedger({
        db,
        verifier: readVerifier(paths),
        savedCheckpoint: readFileIfExists(paths.checkpoint),
        openTexts: () => {
          write();
          return { opener: undefined, why: "", isLost: false };
        },
      });
    } finally {
      db.close();
    }
  };
  /** Appends entries, one of them with a text, and erases the texts of all other entries. */
  const appendAndErase = (dir: string) => {
    const writer = LedgerWriter.open(resolveLedgerPaths(dir));
    const time = new Date().toISOString();
    const entry = { name: "memory.set", time, fields: "{}", dispatch: undefined };
    writer.append([
      { ...entry, sealed: undefined },
      { ...entry, sealed: '"text"' },
    ]);
    writer.eraseOldTexts({ before: time, after: -1, time });
    writer.close();
  };

  it("does not change the result", async () => {
    const { dir, size } = await createLedger("sealed");
    expect(verifyDuring(dir, () => appendAndErase(dir))).toMatchObject({
      status: "whole",
      size,
      sealed: 6,
      erased: 0,
    });
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", erased: 6 });
  });

  it("does not hide a text without an entry", async () => {
    const { dir, size } = await createLedger("sealed");
    editDatabase(dir, (db) =>
      db.exec(`INSERT INTO sealed VALUES (${size + 20}, zeroblob(32), '1')`),
    );
    const { problems } = verifyDuring(dir, () => appendAndErase(dir));
    expect(problems.map(({ message }) => message)).toEqual([orphan(size + 20)]);
  });
});
