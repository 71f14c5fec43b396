import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hashLeaf } from "../../src/assistant/ledger/merkle-tree.ts";
import { runCallSequence } from "../support/companion-kill-points.ts";
import { FaultHarness } from "../support/fault-harness.ts";
import { editDatabase } from "../support/ledger-fixtures.ts";
import { Dice } from "../support/random.ts";
import { SEED } from "../support/sampling.ts";

/** The number of attempts for each kind of change. The seed chooses the places of the changes. */
const TRIES = Number(process.env["BERTH_TAMPERING_TRIES"] ?? 1);
const LIMIT_MS = 120_000 + TRIES * 60_000;

/** The harness of a companion that wrote a ledger in two runs. Each test restores the ledger before it changes it. */
let harness: FaultHarness;
let size = 0;
let kept = "";
const dice = new Dice(SEED);
const copies = () => ({
  whole: join(harness.companion.home, "whole"),
  old: join(harness.companion.home, "old"),
});

beforeAll(async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  harness = await FaultHarness.open();
  for (const name of ["first", "second"]) {
    await harness.companion.start();
    await runCallSequence(harness, name);
    await harness.client.context("MemorySet", "sss", ["org.example.Notes", "key", name]);
    await harness.companion.stop();
    // The ledger's reserve file of 10 MiB is not copied, because no test needs it.
    rmSync(join(harness.dataDir, "ledger/reserve"));
    const { whole, old } = copies();
    cpSync(harness.dataDir, name === "first" ? old : whole, { recursive: true });
  }
  size = harness.entries().length;
  kept = join(harness.companion.home, "kept.txt");
  const { stdout } = await harness.companion.berth(["ledger", "checkpoint", "--user"]);
  writeFileSync(kept, stdout);
});
afterAll(() => harness[Symbol.asyncDispose]());

function restore(): void {
  rmSync(harness.dataDir, { recursive: true });
  cpSync(copies().whole, harness.dataDir, { recursive: true });
}

async function verifyCopy(
  ...args: readonly string[]
): Promise<{ code: number | null; said: string }> {
  const run = await harness.companion.berth(["ledger", "verify", "--user", ...args]);
  return { code: run.code, said: run.stdout + run.stderr };
}

async function verifyAfter(work: (db: Database.Database) => void): Promise<unknown> {
  restore();
  editDatabase(harness.dataDir, work);
  const run = await harness.companion.berth(["ledger", "verify", "--user", "--json"]);
  const verdict: Record<string, unknown> = JSON.parse(run.stdout);
  return { code: run.code, status: verdict["status"], firstBad: verdict["first_bad"] };
}

function tamperedAt(firstBad: number): unknown {
  return { code: 1, status: "tampered", firstBad };
}

/** Flips one bit in a random value of a random row. Returns the key of the row. */
function flipBit(db: Database.Database, table: string, column: string, key: string): number {
  const keys = db.prepare<[], number>(`SELECT ${key} FROM ${table}`).pluck().all();
  const row = dice.pick(keys);
  const [value, type] = db
    .prepare<[number], [Buffer, string]>(
      `SELECT CAST(${column} AS BLOB), typeof(${column}) FROM ${table} WHERE ${key} = ?`,
    )
    .raw()
    .get(row) ?? [Buffer.alloc(0), ""];
  const flipped = Buffer.from(value);
  const bit = dice.between(0, flipped.length * 8 - 1);
  flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  const cast = type === "text" ? "CAST(? AS TEXT)" : "?";
  db.prepare(`UPDATE ${table} SET ${column} = ${cast} WHERE ${key} = ?`).run(flipped, row);
  return row;
}

const bits = [
  ["entry", "body", "seq", (row: number) => row],
  ["entry", "leaf", "seq", (row: number) => row],
  ["encrypted_text", "box", "seq", (row: number) => row],
  ["checkpoint", "note", "size", (row: number) => row - 1],
] as const;

const anywhere = () => dice.between(1, size - 2);

/** The changes by name. Each function makes one change, and returns the entry that the verification must name. */
const changes: readonly (readonly [string, (db: Database.Database) => number])[] = [
  ...bits.map(
    ([table, column, key, entryOf]) =>
      [
        `a bit of ${table}.${column}`,
        (db: Database.Database) => entryOf(flipBit(db, table, column, key)),
      ] as const,
  ),
  [
    "a deleted row",
    (db) => {
      const seq = anywhere();
      db.prepare("DELETE FROM entry WHERE seq = ?").run(seq);
      return seq;
    },
  ],
  [
    "a deleted row whose successors are renumbered",
    (db) => {
      const seq = anywhere();
      db.prepare("DELETE FROM entry WHERE seq = ?").run(seq);
      db.prepare("UPDATE entry SET seq = -seq WHERE seq > ?").run(seq);
      db.exec("UPDATE entry SET seq = -seq - 1 WHERE seq < 0");
      return seq;
    },
  ],
  [
    "deleted rows at the end",
    (db) => {
      const seq = anywhere();
      db.prepare("DELETE FROM entry WHERE seq >= ?").run(seq);
      return seq;
    },
  ],
  [
    "two swapped rows",
    (db) => {
      const seq = anywhere();
      db.prepare("UPDATE entry SET seq = -1 WHERE seq = ?").run(seq);
      db.prepare("UPDATE entry SET seq = ? WHERE seq = ?").run(seq, seq + 1);
      db.prepare("UPDATE entry SET seq = ? WHERE seq = -1").run(seq + 1);
      return seq;
    },
  ],
  [
    "an inserted row with the hash of its predecessor",
    (db) => {
      const seq = anywhere();
      db.prepare("UPDATE entry SET seq = -seq WHERE seq >= ?").run(seq);
      db.exec("UPDATE entry SET seq = -seq + 1 WHERE seq < 0");
      const leafOf = db.prepare<[number], Buffer>("SELECT leaf FROM entry WHERE seq = ?").pluck();
      const prev = leafOf.get(seq - 1)?.toString("hex") ?? "";
      const body = `{"fields":{},"name":"memory.set","prev":"${prev}","seq":${seq},"time":"","v":1}`;
      db.prepare("INSERT INTO entry VALUES (?, ?, ?)").run(seq, body, hashLeaf(body));
      return seq;
    },
  ],
  [
    "a deleted sealed text without an erasure entry",
    (db) => {
      const row = dice.pick(db.prepare<[], number>("SELECT seq FROM encrypted_text").pluck().all());
      db.prepare("DELETE FROM encrypted_text WHERE seq = ?").run(row);
      return row;
    },
  ],
];

describe("a ledger that a companion wrote", () => {
  it("is whole, and consistent with its earlier checkpoints", async () => {
    restore();
    expect(size).toBeGreaterThan(20);
    expect(await verifyCopy("--against", kept)).toMatchObject({
      code: 0,
      said: expect.stringMatching(/^whole: /),
    });
  });

  it.each(changes)(
    "fails its verification at the changed entry: %s",
    async (_, change) => {
      for (let attempt = 0; attempt < TRIES; attempt += 1) {
        let named = -1;
        const verdict = await verifyAfter((db) => {
          named = change(db);
        });
        expect(verdict).toEqual(tamperedAt(named));
      }
    },
    LIMIT_MS,
  );

  it("is reported as rolled back if its database is an older copy, or if all files are and a checkpoint was kept elsewhere", async () => {
    restore();
    const { old } = copies();
    cpSync(join(old, "ledger/ledger.db"), join(harness.dataDir, "ledger/ledger.db"));
    for (const end of ["-wal", "-shm"])
      rmSync(join(harness.dataDir, `ledger/ledger.db${end}`), { force: true });
    expect(await verifyCopy()).toMatchObject({
      code: 2,
      said: expect.stringMatching(/^rolled back or forked: rolled back/),
    });
    // Like the verification, the daemon refuses the older copy of its database.
    await harness.companion.start();
    expect(await harness.request("look", "rolled back")).toMatchObject({
      status: "failed",
      detail: { code: "ledger_unavailable" },
    });
    await harness.companion.stop();

    rmSync(harness.dataDir, { recursive: true });
    cpSync(old, harness.dataDir, { recursive: true });
    expect(await verifyCopy()).toMatchObject({ code: 0 });
    expect(readFileSync(kept, "utf8")).toContain(`\n${size}\n`);
    expect(await verifyCopy("--against", kept)).toMatchObject({ code: 2 });
  });
});
