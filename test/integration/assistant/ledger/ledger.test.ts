import { createHash } from "node:crypto";
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { AppendQueue } from "../../../../src/assistant/ledger/append-queue.ts";
import { openLedger } from "../../../../src/assistant/ledger/ledger.ts";
import { draftEntry, FIRST_ENTRY_PREV } from "../../../../src/assistant/ledger/ledger-entry.ts";
import { OfflineLedger } from "../../../../src/assistant/ledger/offline-ledger.ts";
import type { NewEntry } from "../../../../src/assistant/ledger/port.ts";
import { createNoteSigner } from "../../../../src/assistant/ledger/signed-note.ts";
import {
  appendEntries,
  createEntry,
  createStateDirectory,
  editDatabase,
  openTestLedger,
  verifyLedgerAt,
} from "../../../support/ledger-fixtures.ts";
import { openedBy } from "../../../support/open-descriptors.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

function entries(dir: string) {
  using offline = OfflineLedger.open(dir);
  return offline.tail(100_000);
}

function replaceKey(dir: string): void {
  const { text } = createNoteSigner("berth.local/other", Buffer.alloc(32, 1));
  writeFileSync(join(dir, "ledger.key"), `${text}\n`);
}

const unavailable = (reason: RegExp) =>
  expect.objectContaining({ code: "ledger_unavailable", message: expect.stringMatching(reason) });

describe("a ledger entry", () => {
  it("is on the disk when append has resolved, with the hash of its predecessor and a commitment to its sealed text", async () => {
    const dir = createStateDirectory();
    const clock = new VirtualClock(Date.parse("2026-11-21T10:00:00Z"));
    await using ledger = await openLedger({ dir, clock, version: "1.2.3" });
    const entry: NewEntry = {
      name: "inference.generate",
      fields: { z: [1, null, true], model: "tiny" },
      sealed: { prompt: "secret words" },
    };
    const receipt = await ledger.append(entry);
    expect(receipt.seq).toBe(1);
    const [opened, written] = entries(dir);
    expect(opened?.body).toMatchObject({
      name: "ledger.opened",
      seq: 0,
      prev: FIRST_ENTRY_PREV,
      fields: { size: 0, version: "1.2.3", key: expect.stringMatching(/^berth\.local\//) },
    });
    expect(written).toMatchObject({
      leaf: receipt.leaf,
      plain: '{"prompt":"secret words"}',
      body: {
        fields: entry.fields,
        name: entry.name,
        prev: opened?.leaf,
        seq: 1,
        time: "2026-11-21T10:00:00.000Z",
        v: 1,
      },
    });
    editDatabase(dir, (db) => {
      const [body, salt] = db
        .prepare<[], [string, Buffer]>("SELECT body, salt FROM entry JOIN sealed USING (seq)")
        .raw()
        .get() ?? ["", Buffer.alloc(0)];
      expect(createHash("sha256").update(`\0${body}`).digest("hex")).toBe(receipt.leaf);
      expect(salt.length).toBe(32);
      const commitment = createHash("sha256").update(salt).update('{"prompt":"secret words"}');
      expect(body).toContain(`"sealed":"${commitment.digest("hex")}"`);
      expect(body).not.toContain("secret words");
    });
    expect(ledger.state).toMatchObject({ ok: true, size: 2, full: false, lastError: undefined });
  });

  it("that the ledger may write later is written before the next entry, in the same commit", async () => {
    const dir = createStateDirectory();
    const clock = new VirtualClock(0);
    await using ledger = await openLedger({ dir, clock });
    const { commits } = ledger.state;
    const waiting = ledger.append({ name: "agent.call.result", fields: {} }, { mayWait: true });
    const urgent = ledger.append({ name: "agent.call.requested", fields: {} });
    expect((await urgent).seq).toBe((await waiting).seq + 1);
    expect(ledger.state.commits).toBe(commits + 1);
  });

  it("that the ledger may write later gets a commit of its own if no other entry follows", async () => {
    const dir = createStateDirectory();
    const clock = new VirtualClock(0);
    await using ledger = await openLedger({ dir, clock });
    const { size, commits } = ledger.state;
    const waiting = ledger.append({ name: "agent.call.result", fields: {} }, { mayWait: true });
    await clock.advance(49);
    await ledger.checkpoint();
    expect(ledger.state).toMatchObject({ size, commits });
    await clock.advance(1);
    expect((await waiting).seq).toBe(size);
  });

  it("that the ledger may write later is written when the ledger closes", async () => {
    const dir = createStateDirectory();
    const ledger = await openLedger({ dir, clock: new VirtualClock(0) });
    const waiting = ledger.append({ name: "agent.call.result", fields: {} }, { mayWait: true });
    await ledger[Symbol.asyncDispose]();
    expect(entries(dir).at(-1)?.body.seq).toBe((await waiting).seq);
  });

  it("shares its commit with those of other concurrent clients, in the order of their appends", async () => {
    const dir = createStateDirectory();
    await using ledger = await openTestLedger(dir);
    const rounds = 8;
    let handed = 0;
    const clients = Array.from({ length: 64 }, async () => {
      for (let round = 0; round < rounds; round += 1) {
        const number = handed;
        handed += 1;
        const { seq } = await ledger.append(createEntry(number));
        expect(seq).toBe(number + 1);
      }
    });
    await Promise.all(clients);
    expect(ledger.state.size).toBe(64 * rounds + 1);
    expect(ledger.state.commits).toBeLessThanOrEqual(3 * rounds);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", size: 64 * rounds + 1 });
  });

  it("that is appended before the ledger closes is written; a later one is refused", async () => {
    const dir = createStateDirectory();
    const ledger = await openTestLedger(dir);
    const handed = appendEntries(ledger, 10);
    const disposed = ledger[Symbol.asyncDispose]();
    await expect(ledger.append(createEntry(1))).rejects.toEqual(unavailable(/closed/));
    await disposed;
    expect((await handed).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", size: 11 });
  });
});

describe("the files of a ledger", () => {
  it("are not readable for other users, and a ledger that is opened again continues them", async () => {
    const dir = createStateDirectory();
    for (let start = 0; start < 3; start += 1) {
      await using ledger = await openTestLedger(dir);
      await appendEntries(ledger, 5);
      expect(ledger.state.size).toBe(6 * (start + 1));
    }
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", size: 18 });
    const modeOf = (path: string) => statSync(join(dir, path)).mode & 0o777;
    expect(modeOf("ledger")).toBe(0o700);
    expect(modeOf("ledger.key")).toBe(0o600);
    for (const file of readdirSync(join(dir, "ledger")).filter((name) => name !== "lock.db"))
      expect([file, modeOf(join("ledger", file))]).toEqual([file, 0o600]);
    const [opened] = entries(dir).slice(6);
    expect(opened?.body).toMatchObject({ name: "ledger.opened", fields: { size: 6 } });
  });

  it("exclude a second writer until the first has ended", async () => {
    const dir = createStateDirectory();
    const first = await openTestLedger(dir);
    await expect(openTestLedger(dir)).rejects.toEqual(unavailable(/another process/));
    await appendEntries(first, 3);
    await first[Symbol.asyncDispose]();
    await using second = await openTestLedger(dir);
    expect(second.state).toMatchObject({ ok: true, size: 5 });
  });
});

describe("the private key of a ledger", () => {
  it.each([
    ["gone", (dir: string) => rmSync(join(dir, "ledger.key")), /private key is missing/],
    [
      "open to others",
      (dir: string) => chmodSync(join(dir, "ledger.key"), 0o644),
      /readable for other users/,
    ],
    ["damaged", (dir: string) => writeFileSync(join(dir, "ledger.key"), "x"), /key is damaged/],
    ["that of another ledger", replaceKey, /do not belong together/],
  ])("that is %s makes the ledger refuse appends", async (_, harm, reason) => {
    const dir = createStateDirectory();
    await (await openTestLedger(dir))[Symbol.asyncDispose]();
    harm(dir);
    await using ledger = await openTestLedger(dir);
    expect(ledger.state).toMatchObject({ ok: false, lastError: { kind: "key" } });
    await expect(ledger.append(createEntry(0))).rejects.toEqual(unavailable(reason));
    expect(verifyLedgerAt(dir)).toMatchObject({ size: 1 });
  });
});

describe("a dispatch without a result", () => {
  it("is recorded as indeterminate once after a restart, unlike a dispatch with a result", async () => {
    const dir = createStateDirectory();
    {
      await using ledger = await openTestLedger(dir);
      const done = await ledger.append({ name: "agent.call.dispatch", fields: { call: 1 } });
      await ledger.append({ name: "agent.call.dispatch", fields: { call: 2 } });
      await ledger.append({ name: "agent.undo.dispatch", fields: { call: 3 } });
      await ledger.append({ name: "agent.call.result", fields: { dispatch: done.seq, ok: true } });
      expect(verifyLedgerAt(dir).status).toBe("whole");
    }
    for (let start = 0; start < 2; start += 1)
      await (await openTestLedger(dir))[Symbol.asyncDispose]();
    const told = entries(dir).filter(({ body }) => body.name === "ledger.indeterminate");
    expect(told.map(({ body }) => body.fields)).toEqual([{ dispatch: 2 }, { dispatch: 3 }]);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", size: 9 });
  });
});

describe("a text that was erased from the ledger", () => {
  it("is in no file, and the ledger still verifies", async () => {
    const dir = createStateDirectory();
    const canary = "canary-7f3a9c-";
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 20);
    // The text is longer than a database page, so SQLite stores it on overflow pages, which the erasure must clear.
    const sealed = canary.repeat(2_000);
    const { seq } = await ledger.append({ name: "memory.set", fields: {}, sealed });
    await appendEntries(ledger, 20);
    expect(findFilesWith(dir, canary)).not.toEqual([]);
    const before = ledger.state.size;
    expect(await ledger.eraseBefore(Date.now() + 1)).toMatchObject({ texts: 29, entries: 1 });
    expect(findFilesWith(dir, canary)).toEqual([]);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", erased: 29, size: before + 1 });
    using offline = OfflineLedger.open(dir);
    expect(offline.proveInclusion(seq)?.size).toBe(before + 1);
  });

  it("is removed from all files when an open reader has ended", async () => {
    const dir = createStateDirectory();
    const canary = "canary-51bd02-";
    await using ledger = await openTestLedger(dir);
    const { seq } = await ledger.append({ name: "memory.set", fields: {}, sealed: canary });
    const reader = new Database(join(dir, "ledger/ledger.db"), { readonly: true });
    reader.exec("BEGIN");
    expect(reader.prepare("SELECT count(*) FROM sealed").pluck().get()).toBe(1);
    expect(await ledger.eraseBefore(Date.now() + 1)).toMatchObject({ texts: 1, first: seq });
    // These appends succeed although the transaction of `reader` is still open.
    await appendEntries(ledger, 3);
    expect(findFilesWith(dir, canary)).not.toEqual([]);
    reader.close();
    await expect.poll(() => findFilesWith(dir, canary)).toEqual([]);
  });
});

function findFilesWith(dir: string, text: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => join(file.parentPath, file.name))
    .filter((file) => readFileSync(file).includes(text));
}

describe("a checkpoint of a ledger", () => {
  it("is written to its file a second after a commit, on demand, and when the ledger closes", async () => {
    const dir = createStateDirectory();
    const saved = () => readFileSync(join(dir, "ledger/checkpoint"), "utf8").split("\n")[1];
    const clock = new VirtualClock();
    {
      await using ledger = await openLedger({ dir, clock });
      expect(saved()).toBe("1");
      await appendEntries(ledger, 5);
      expect(saved()).toBe("1");
      await clock.advance(1_000);
      await expect.poll(saved).toBe("6");
      await appendEntries(ledger, 1);
      const note = await ledger.checkpoint();
      expect(readFileSync(join(dir, "ledger/checkpoint"), "utf8")).toBe(note);
      expect(saved()).toBe("7");
      await appendEntries(ledger, 1);
    }
    expect(saved()).toBe("8");
  });
});

describe("a ledger that does not verify", () => {
  it("accepts no entries if the database is an older copy, or if its last entries were changed", async () => {
    const dir = createStateDirectory();
    await (await openTestLedger(dir))[Symbol.asyncDispose]();
    const old = readFileSync(join(dir, "ledger/ledger.db"));
    {
      await using ledger = await openTestLedger(dir);
      await appendEntries(ledger, 4);
    }
    const now = readFileSync(join(dir, "ledger/ledger.db"));
    writeFileSync(join(dir, "ledger/ledger.db"), old);
    {
      await using ledger = await openTestLedger(dir);
      expect(ledger.state).toMatchObject({ ok: false, lastError: { kind: "rolled_back" } });
      await expect(ledger.append(createEntry(0))).rejects.toEqual(unavailable(/had 6/));
    }
    writeFileSync(join(dir, "ledger/ledger.db"), now);
    editDatabase(dir, (db) =>
      db.exec("UPDATE entry SET body = replace(body, 'tiny', 'tidy') WHERE seq = 4"),
    );
    {
      await using ledger = await openTestLedger(dir);
      expect(ledger.state).toMatchObject({ ok: false, lastError: { kind: "tampered" } });
      await expect(ledger.append(createEntry(0))).rejects.toEqual(unavailable(/entry 4/));
    }
  });

  it("can be continued if the user requests it, and the ledger records that", async () => {
    const dir = createStateDirectory();
    await (await openTestLedger(dir))[Symbol.asyncDispose]();
    rmSync(join(dir, "ledger/checkpoint"));
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "rolled_back" });
    await (await openTestLedger(dir))[Symbol.asyncDispose]();
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole" });
    expect(entries(dir).at(-1)?.body.fields).toMatchObject({ checkpoint: "missing" });
  });

  it("refuses appends after a change at run time, and accepts them after the change is reverted", async () => {
    const dir = createStateDirectory();
    const clock = new VirtualClock();
    await using ledger = await openLedger({ dir, clock });
    await appendEntries(ledger, 2);
    // Another process changes the database while the writer has it open.
    editDatabase(dir, (db) =>
      db.exec("INSERT INTO entry SELECT 3, body, leaf FROM entry WHERE seq = 2"),
    );
    await expect(ledger.append(createEntry(2))).rejects.toEqual(unavailable(/cannot be written/));
    expect(ledger.state.ok).toBe(false);
    editDatabase(dir, (db) => db.exec("DELETE FROM entry WHERE seq = 3"));
    await expect
      .poll(async () => {
        await clock.advance(5_000);
        return ledger.state.ok;
      })
      .toBe(true);
    expect((await ledger.append(createEntry(2))).seq).toBe(3);
    expect(verifyLedgerAt(dir)).toMatchObject({ status: "whole", size: 4 });
  });
});

const draft = (fields: NewEntry["fields"], sealed?: string) =>
  draftEntry({ name: "memory.set", fields, sealed }, "2026-11-21T10:00:00.000Z");

describe("the append queue of a ledger", () => {
  it("is bounded, and returns batches of bounded size in order", async () => {
    const queue = new AppendQueue();
    const waiting: Promise<unknown>[] = [];
    for (
      let next = queue.add(draft({ at: 0 }));
      next;
      next = queue.add(draft({ at: waiting.length }))
    )
      waiting.push(next);
    expect(queue.length).toBe(16_384);
    const first = queue.takeBatch();
    expect(first?.drafts.length).toBe(1_024);
    expect(first?.drafts[5]?.fields).toBe('{"at":5}');
    const another = queue.add(draft({}));
    another?.catch(() => undefined);
    expect(another).toBeDefined();
    first?.reject(new Error("no"));
    await expect(waiting[0]).rejects.toThrow("no");
    for (const item of waiting) item.catch(() => undefined);
    queue.rejectAll(new Error("end"));
    await expect(waiting.at(-1)).rejects.toThrow("end");
    expect(queue.takeBatch()).toBeUndefined();
  });

  it("limits the bytes of a batch, but accepts any single entry", () => {
    const queue = new AppendQueue();
    const large = draft({}, "x".repeat(15 * 1024 * 1024));
    const added = [1, 2, 3, 4, 5, 6].map(() => queue.add(large));
    for (const promise of added) promise?.catch(() => undefined);
    expect(added.filter((promise) => promise !== undefined).length).toBe(4);
    expect(queue.takeBatch()?.drafts.length).toBe(1);
  });
});

it("a ledger that cannot be read is closed again", async () => {
  const dir = createStateDirectory();
  await using ledger = await openTestLedger(dir);
  await ledger[Symbol.asyncDispose]();
  const file = join(dir, "ledger/ledger.db");
  writeFileSync(file, "no database, and longer than the head of one".repeat(100));
  expect(() => OfflineLedger.open(dir)).toThrow(expect.objectContaining({ kind: "io" }));
  expect(openedBy("self")).not.toContain(file);
});
