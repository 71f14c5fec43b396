import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type Database from "better-sqlite3";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signCheckpoint } from "../../../../src/assistant/ledger/checkpoint.ts";
import { hashLeaf, TreeEdge } from "../../../../src/assistant/ledger/merkle-tree.ts";
import { createNoteSigner } from "../../../../src/assistant/ledger/signed-note.ts";
import {
  appendEntries,
  createStateDirectory,
  editDatabase,
  openTestLedger,
  SettableClock,
  verifyLedgerAt,
} from "../../../support/ledger-fixtures.ts";

/**
 * The data directory of an intact ledger that was opened twice. The ledger contains dispatches, an erased text and
 * full tiles. Each test gets a copy.
 */
let whole = "";
let size = 0;
const DAY_MS = 86_400_000;
/** The sequence number of the entry whose text was erased. */
let erased = 0;
/** The checkpoint, the database and the number of entries when the ledger was closed for the first time. */
let early = { note: "", database: Buffer.alloc(0), size: 0 };

beforeAll(async () => {
  whole = mkdtempSync(join(tmpdir(), "berth-ledger-whole-"));
  {
    await using ledger = await openTestLedger(whole);
    await appendEntries(ledger, 20);
    await ledger.append({ name: "agent.call.dispatch", fields: { call: 1 } });
  }
  early = {
    note: readFileSync(join(whole, "ledger/checkpoint"), "utf8"),
    database: readFileSync(join(whole, "ledger/ledger.db")),
    size: 22,
  };
  const clock = new SettableClock();
  await using ledger = await openTestLedger(whole, clock);
  await appendEntries(ledger, 1_100, 20);
  await ledger.append({ name: "agent.call.dispatch", fields: { call: 2 } });
  // The clock is set back for one entry, so that the erasure of old texts erases the text of this entry only.
  clock.offsetMs = -DAY_MS;
  const [receipt] = await appendEntries(ledger, 1);
  clock.offsetMs = 0;
  erased = receipt?.seq ?? 0;
  await ledger.eraseBefore(clock.now() - DAY_MS / 2);
  await appendEntries(ledger, 13, 3_000);
  size = ledger.state.size;
  await ledger[Symbol.asyncDispose]();
  // The function copyLedger would otherwise copy the disk reserve of 10 MiB, which no test needs.
  rmSync(join(whole, "ledger/reserve"));
});
afterAll(() => rmSync(whole, { recursive: true, force: true }));

function copyLedger(): string {
  const dir = createStateDirectory();
  cpSync(whole, dir, { recursive: true });
  return dir;
}

function verifyAfter(work: (db: Database.Database) => void) {
  const dir = copyLedger();
  editDatabase(dir, work);
  return verifyLedgerAt(dir);
}

describe("an intact ledger", () => {
  it("is verified as `whole`, also against an earlier checkpoint", () => {
    expect(size).toBeGreaterThan(1_100);
    expect(verifyLedgerAt(whole)).toMatchObject({ status: "whole", reason: "", size, erased: 1 });
    expect(verifyLedgerAt(whole, [early.note])).toMatchObject({
      status: "whole",
      firstBad: undefined,
    });
  });

  it("is verified as `whole` after each commit while entries are appended", async () => {
    const dir = copyLedger();
    await using ledger = await openTestLedger(dir);
    const written = appendEntries(ledger, 600, 5_000);
    let seen = 0;
    for (let isDone = false; !isDone; seen += 1) {
      isDone = await Promise.race([
        written.then(() => true),
        new Promise<false>((resolve) => setImmediate(resolve, false)),
      ]);
      expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", reason: "" });
    }
    expect(seen).toBeGreaterThan(0);
  });
});

/**
 * The columns that contain bytes or text. `entryOf` maps the key of a changed row to the number of the entry that the
 * verification must report.
 */
const columns = [
  { table: "entry", column: "body", key: "seq", entryOf: (seq: number) => seq },
  { table: "entry", column: "leaf", key: "seq", entryOf: (seq: number) => seq },
  { table: "sealed", column: "salt", key: "seq", entryOf: (seq: number) => seq },
  { table: "sealed", column: "plain", key: "seq", entryOf: (seq: number) => seq },
  { table: "node", column: "hash", key: "ix", entryOf: (index: number) => index * 256 },
  { table: "checkpoint", column: "note", key: "size", entryOf: (head: number) => head - 1 },
] as const;

const numbers = [
  { table: "entry", column: "seq" },
  { table: "sealed", column: "seq" },
  { table: "node", column: "ix" },
  { table: "node", column: "level" },
  { table: "checkpoint", column: "size" },
  { table: "open_dispatch", column: "seq" },
] as const;

describe("a flipped bit", () => {
  it.each(columns.map((row) => [`${row.table}.${row.column}`, row] as const))(
    "in the column %s is detected, and the entry is named",
    (_, { table, column, key, entryOf }) => {
      const dir = copyLedger();
      fc.assert(
        fc.property(fc.nat(), fc.nat(), (anyRow, anyBit) => {
          let blamed = 0;
          let undo: ((db: Database.Database) => void) | undefined;
          editDatabase(dir, (db) => {
            const keys = db.prepare<[], number>(`SELECT ${key} FROM ${table}`).pluck().all();
            const row = keys[anyRow % keys.length] ?? 0;
            const [value, type] = db
              .prepare<[number], [Buffer, string]>(
                `SELECT CAST(${column} AS BLOB), typeof(${column}) FROM ${table} WHERE ${key} = ?`,
              )
              .raw()
              .get(row) ?? [Buffer.alloc(0), ""];
            const cast = type === "text" ? "CAST(? AS TEXT)" : "?";
            const put = (to: Database.Database, bytes: Buffer) =>
              to
                .prepare(`UPDATE ${table} SET ${column} = ${cast} WHERE ${key} = ?`)
                .run(bytes, row);
            const flipped = Buffer.from(value);
            const bit = anyBit % (flipped.length * 8);
            flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
            put(db, flipped);
            undo = (to) => void put(to, value);
            blamed = entryOf(row);
          });
          const verdict = verifyLedgerAt(dir);
          editDatabase(dir, (db) => undo?.(db));
          expect(verdict).toMatchObject({ status: "tampered", firstBad: blamed });
          expect(verdict.reason).not.toBe("");
        }),
        { numRuns: 15 },
      );
      expect(verifyLedgerAt(dir).status).toBe("whole");
    },
  );

  it.each(numbers.map((row) => [`${row.table}.${row.column}`, row] as const))(
    "in the column %s is detected",
    (_, { table, column }) => {
      const dir = copyLedger();
      fc.assert(
        fc.property(fc.nat(), fc.nat({ max: 62 }), (anyRow, bit) => {
          let change: [from: bigint, to: bigint] | undefined;
          const put = (from: bigint, to: bigint) =>
            editDatabase(dir, (db) => {
              db.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${column} = ?`).run(to, from);
            });
          editDatabase(dir, (db) => {
            const rows = db.prepare<[], bigint>(`SELECT ${column} FROM ${table}`).pluck();
            const all = rows.safeIntegers().all();
            const from = all[anyRow % all.length] ?? 0n;
            const to = from ^ (1n << BigInt(bit));
            // The database refuses a number that another row has in this column, so the test does not try such a
            // number.
            if (!all.includes(to)) change = [from, to];
          });
          if (!change) return;
          put(change[0], change[1]);
          const verdict = verifyLedgerAt(dir);
          put(change[1], change[0]);
          expect(verdict.status).toBe("tampered");
          if (table === "entry") expect(verdict.firstBad).toBe(Number(change[0]));
        }),
        { numRuns: 15 },
      );
      expect(verifyLedgerAt(dir).status).toBe("whole");
    },
  );
});

it("a flipped bit of the only checkpoint of a young ledger is reported as tampering, not as another key", async () => {
  const dir = createStateDirectory();
  {
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 5);
  }
  let note = Buffer.alloc(0);
  const put = (bytes: Buffer) =>
    editDatabase(dir, (db) =>
      db.prepare("UPDATE checkpoint SET note = CAST(? AS TEXT)").run(bytes),
    );
  editDatabase(dir, (db) => {
    const notes = db.prepare<[], string>("SELECT note FROM checkpoint").pluck().all();
    expect(notes).toHaveLength(1);
    note = Buffer.from(notes[0] ?? "");
  });
  const words = new Set<string>();
  for (let at = 0; at < note.length; at += 1) {
    const flipped = Buffer.from(note);
    flipped[at] = (flipped[at] ?? 0) ^ (1 << (at % 7));
    put(flipped);
    const verdict = verifyLedgerAt(dir);
    expect([at, verdict]).toMatchObject([at, { status: "tampered", firstBad: 5 }]);
    words.add(verdict.reason);
  }
  expect([...words]).toContainEqual(expect.stringContaining("not signed by this ledger's key"));
  put(note);
  expect(verifyLedgerAt(dir).status).toBe("whole");
});

describe("the verification of a ledger fails", () => {
  const anywhere = fc.integer({ min: 1, max: 1_100 });

  it("if entries are deleted, whether later entries move up or not", () => {
    fc.assert(
      fc.property(anywhere, fc.boolean(), (seq, movesUp) => {
        const verdict = verifyAfter((db) => {
          db.prepare("DELETE FROM entry WHERE seq = ?").run(seq);
          if (!movesUp) return;
          db.prepare("UPDATE entry SET seq = -seq WHERE seq > ?").run(seq);
          db.exec("UPDATE entry SET seq = -seq - 1 WHERE seq < 0");
        });
        expect(verdict).toMatchObject({ status: "tampered", firstBad: seq });
      }),
      { numRuns: 10 },
    );
  });

  it("and names the deleted entry only, whatever the entry recorded", () => {
    // Entry 21 is a dispatch without a result, which entry 22 records. Entry `erased` + 1 records an erasure.
    for (const seq of [5, 6, 21, 23, erased, erased + 1, size - 1]) {
      const verdict = verifyAfter((db) => db.prepare("DELETE FROM entry WHERE seq = ?").run(seq));
      expect([seq, verdict.problems]).toEqual([seq, [{ seq, message: `entry ${seq} is missing` }]]);
    }
  });

  it("and names each run of deleted entries once", () => {
    const verdict = verifyAfter((db) =>
      db.exec(`DELETE FROM entry WHERE seq IN (7, 8, 9, 300) OR seq >= ${size - 4}`),
    );
    expect(verdict.problems.map(({ message }) => message)).toEqual([
      "entries 7 to 9 are missing",
      "entry 300 is missing",
      `entries ${size - 4} to ${size - 1} are missing`,
    ]);
  });

  it("if there are more bad entries than a JavaScript function call can have arguments", () => {
    const count = 130_000;
    const verdict = verifyAfter((db) =>
      db.exec(`WITH RECURSIVE row (seq) AS (SELECT ${size} UNION ALL SELECT seq + 1 FROM row LIMIT ${count})
               INSERT INTO entry SELECT seq, 'x', x'00' FROM row`),
    );
    expect(verdict).toMatchObject({ status: "tampered", firstBad: size });
    expect(verdict.problems).toHaveLength(20);
  });

  it("if entries are inserted", () => {
    fc.assert(
      fc.property(anywhere, (seq) => {
        const verdict = verifyAfter((db) => {
          db.prepare("UPDATE entry SET seq = -seq WHERE seq >= ?").run(seq);
          db.exec("UPDATE entry SET seq = -seq + 1 WHERE seq < 0");
          // This is the best forgery without the key: the row is in order, hashed, and linked to its predecessor.
          const before = db
            .prepare<[number], Buffer>("SELECT leaf FROM entry WHERE seq = ?")
            .pluck();
          const prev = before.get(seq - 1)?.toString("hex") ?? "";
          const body = `{"fields":{},"name":"memory.set","prev":"${prev}","seq":${seq},"time":"","v":1}`;
          db.prepare("INSERT INTO entry VALUES (?, ?, ?)").run(seq, body, hashLeaf(body));
        });
        expect(verdict).toMatchObject({ status: "tampered", firstBad: seq });
      }),
      { numRuns: 10 },
    );
  });

  it("if entries are swapped", () => {
    fc.assert(
      fc.property(anywhere, anywhere, (a, b) => {
        if (a === b) return;
        const verdict = verifyAfter((db) => {
          db.prepare("UPDATE entry SET seq = -1 WHERE seq = ?").run(a);
          db.prepare("UPDATE entry SET seq = ? WHERE seq = ?").run(a, b);
          db.prepare("UPDATE entry SET seq = ? WHERE seq = -1").run(b);
        });
        expect(verdict).toMatchObject({ status: "tampered", firstBad: Math.min(a, b) });
      }),
      { numRuns: 10 },
    );
  });

  it("if a copy of an entry is appended, or if the last entries or checkpoints are deleted", () => {
    const another = `INSERT INTO entry SELECT ${size}, body, leaf FROM entry WHERE seq = 5`;
    expect(verifyAfter((db) => db.exec(another)).firstBad).toBe(5);
    expect(
      verifyAfter((db) => db.exec(`DELETE FROM entry WHERE seq >= ${size - 3}`)),
    ).toMatchObject({
      status: "tampered",
      firstBad: size - 3,
    });
    expect(verifyAfter((db) => db.exec("DELETE FROM checkpoint"))).toMatchObject({ firstBad: 0 });
    expect(verifyAfter((db) => db.exec(`DELETE FROM checkpoint WHERE size = ${size}`)).status).toBe(
      "tampered",
    );
  });

  it("if sealed texts are deleted, restored or added", () => {
    const goneFrom = verifyAfter((db) => db.exec("DELETE FROM sealed WHERE seq = 7"));
    expect(goneFrom).toMatchObject({ status: "tampered", firstBad: 7 });
    for (const seq of [0, erased, size + 3]) {
      const put = `INSERT INTO sealed VALUES (${seq}, zeroblob(32), '"x"')`;
      expect(verifyAfter((db) => db.exec(put))).toMatchObject({ firstBad: seq });
    }
  });

  it("if rows of the table open_dispatch are deleted or added", () => {
    expect(verifyAfter((db) => db.exec("DELETE FROM open_dispatch")).status).toBe("tampered");
    expect(verifyAfter((db) => db.exec("INSERT INTO open_dispatch VALUES (21)")).firstBad).toBe(21);
  });
});

/** Changes one entry, and updates every hash that can be updated without the key. */
function rewrite(db: Database.Database, from: number, sign?: (edge: TreeEdge) => string): void {
  const edge = new TreeEdge();
  let prev = "";
  const rows = db.prepare<[], [number, string]>("SELECT seq, body FROM entry ORDER BY seq").raw();
  for (const [seq, text] of rows.all()) {
    const body: { prev: string; time: string } = JSON.parse(text);
    if (seq === from) body.time = "2020-01-01T00:00:00.000Z";
    if (seq > from) body.prev = prev;
    const changed = JSON.stringify(body);
    const leaf = hashLeaf(changed);
    prev = leaf.toString("hex");
    db.prepare("UPDATE entry SET body = ?, leaf = ? WHERE seq = ?").run(changed, leaf, seq);
    edge.add(leaf, (height, index, hash) => {
      if (height % 8 === 0)
        db.prepare("UPDATE node SET hash = ? WHERE level = ? AND ix = ?").run(
          hash,
          height / 8,
          index,
        );
    });
  }
  if (!sign) return;
  db.exec("DELETE FROM checkpoint");
  db.prepare("INSERT INTO checkpoint VALUES (?, ?)").run(edge.size, sign(edge));
}

describe("a history that was rewritten with all its hashes", () => {
  it("does not match the signed roots, and the first bad entry is named", () => {
    const verdict = verifyAfter((db) => rewrite(db, size - 5));
    expect(verdict.status).toBe("tampered");
    expect(verdict.firstBad).toBeGreaterThan(1_000);
    expect(verdict.firstBad).toBeLessThanOrEqual(size - 5);
    expect(verifyAfter((db) => rewrite(db, 3))).toMatchObject({ status: "tampered", firstBad: 0 });
  });

  it("and signed with another key is reported as signed with a wrong key", () => {
    const other = createNoteSigner("berth.local/other", Buffer.alloc(32, 5));
    const verdict = verifyAfter((db) =>
      rewrite(db, 3, (edge) => signCheckpoint(edge.size, edge.root(), other)),
    );
    expect(verdict).toMatchObject({ status: "key" });
  });

  it("and signed with the same key is detected by an earlier checkpoint, and reported as a fork", async () => {
    const dir = copyLedger();
    const { parseSigner } = await import("../../../../src/assistant/ledger/signed-note.ts");
    const own = parseSigner(readFileSync(join(dir, "ledger.key"), "utf8"));
    expect(own).toBeDefined();
    if (!own) return;
    editDatabase(dir, (db) =>
      rewrite(db, 30, (edge) => signCheckpoint(edge.size, edge.root(), own)),
    );
    expect(verifyLedgerAt(dir)).toMatchObject({
      status: "rolled_back",
      reason: expect.stringMatching(/^forked/),
    });
    // A checkpoint from before the forged entry matches, so only the removed checkpoint file is reported.
    rmSync(join(dir, "ledger/checkpoint"));
    expect(verifyLedgerAt(dir, [early.note]).reason).toMatch(/missing/);
  });
});

describe("the check for an older copy of a ledger", () => {
  it("detects an older database through the checkpoint file", () => {
    const dir = copyLedger();
    writeFileSync(join(dir, "ledger/ledger.db"), early.database);
    expect(verifyLedgerAt(dir)).toMatchObject({
      status: "rolled_back",
      size: early.size,
      reason: `rolled back: the checkpoint file covers ${size} entries, but the ledger has ${early.size}`,
    });
  });

  it("detects an older copy of all files through a checkpoint that was kept elsewhere", () => {
    const dir = copyLedger();
    const now = readFileSync(join(dir, "ledger/checkpoint"), "utf8");
    writeFileSync(join(dir, "ledger/ledger.db"), early.database);
    writeFileSync(join(dir, "ledger/checkpoint"), early.note);
    expect(verifyLedgerAt(dir).status).toBe("whole");
    expect(verifyLedgerAt(dir, [now])).toMatchObject({ status: "rolled_back" });
  });

  it("reports a damaged checkpoint file as tampered, not as rolled back", () => {
    const dir = copyLedger();
    const file = join(dir, "ledger/checkpoint");
    writeFileSync(file, readFileSync(file, "utf8").replace(`\n${size}\n`, `\n${size + 1}\n`));
    expect(verifyLedgerAt(dir).status).toBe("tampered");
    writeFileSync(file, "");
    expect(verifyLedgerAt(dir).status).toBe("tampered");
  });

  it("reports that a checkpoint is signed by another key, and not that the ledger is rolled back", () => {
    const dir = copyLedger();
    const file = join(dir, "ledger/checkpoint");
    const stranger = readFileSync(file, "utf8").replace("\n— berth", "\n— perth");
    writeFileSync(file, stranger);
    expect(verifyLedgerAt(dir)).toMatchObject({
      status: "tampered",
      reason: "the checkpoint file is not signed by this ledger's key",
    });
    expect(verifyLedgerAt(whole, [stranger]).status).toBe("key");
  });
});
