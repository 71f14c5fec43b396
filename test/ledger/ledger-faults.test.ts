import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import { fillDisk } from "../support/fill-disk.ts";
import { editDatabase, openLedgerFiles, verifyLedgerAt } from "../support/ledger-fixtures.ts";
import { LedgerHarness } from "../support/ledger-harness.ts";

/** Asserts that all acknowledged entries exist and that the ledger is whole. */
function assertNothingIsLost(harness: LedgerHarness): void {
  using offline = openLedgerFiles(harness.dir);
  expect(offline.verify()).toMatchObject({ status: "whole", reason: "" });
  const stored = new Map(offline.tail(100_000).map(({ body, leaf }) => [body.seq, leaf]));
  for (const [seq, leaf] of harness.acknowledged)
    expect([seq, stored.get(seq)]).toEqual([seq, leaf]);
}

function listEntryNames(harness: LedgerHarness): string[] {
  using offline = OfflineLedger.open(harness.dir);
  return offline.tail(100_000).map(({ body }) => body.name);
}

/** Returns the system calls of the writing thread in order: `pwrite64` 1, `pwrite64` 2, `fsync` 1 ... */
function parseSystemCalls(log: string): { name: string; nth: number }[] {
  const calls = [...log.matchAll(/^(\d+) +([a-z0-9_]+)\(/gm)].map(([, thread, name = ""]) => ({
    thread,
    name,
  }));
  const writer = calls.find(({ name }) => name === "pwrite64" || name === "rename")?.thread;
  const counts = new Map<string, number>();
  return calls
    .filter(({ thread }) => thread === writer)
    .map(({ name }) => {
      const nth = (counts.get(name) ?? 0) + 1;
      counts.set(name, nth);
      return { name, nth };
    });
}

const TRACED_CALLS =
  "trace=fcntl,pwrite64,pread64,fsync,fdatasync,ftruncate,openat,write,close,rename,unlink,newfstatat";

const isAny = () => true;
const isFlush = ({ name }: { name: string }) => ["fsync", "ftruncate"].includes(name);

describe("SIGKILL of the ledger's writer", () => {
  it.each([
    ["an append", "append 2 100", ["pwrite64", "fsync", "fcntl"], isAny],
    ["a saved checkpoint", "checkpoint", ["openat", "write", "fsync", "rename"], isAny],
    // An erasure makes the same system calls between two flushes as an append, so only its flushes
    // are tested.
    ["an erasure", "erase", ["fsync", "ftruncate"], isFlush],
  ])(
    "at each system call of %s loses no acknowledged entry",
    async (_, command, expected, isTried) => {
      await using harness = new LedgerHarness();
      await harness.start();
      await harness.send("append 2 100");
      const tracer = await harness.trace(["-e", TRACED_CALLS]);
      expect(await harness.send(command)).toBe(true);
      await tracer.detach();
      await harness.end();
      const calls = parseSystemCalls(await tracer.log()).filter(isTried);
      expect(calls.map(({ name }) => name)).toEqual(expect.arrayContaining(expected));

      let killed = 0;
      for (const { name, nth } of calls) {
        await harness.start();
        await harness.send("append 2 100");
        const injected = await harness.trace([
          "-e",
          `trace=${name}`,
          "-e",
          `inject=${name}:signal=SIGKILL:when=${nth}`,
        ]);
        if (!(await harness.send(command))) killed += 1;
        await harness.end();
        await injected.detach();
        assertNothingIsLost(harness);
      }
      // A run may make fewer system calls than the traced run, and then its kill does not happen.
      expect(killed).toBeGreaterThan(calls.length * 0.7);
      expect(harness.refusals).toEqual([]);
    },
  );
});

it("SIGKILL at each flush of the encryption of older texts leaves a ledger that is whole, and that is encrypted later", async () => {
  await using harness = new LedgerHarness();
  const reset = async () => {
    for (const name of ["ledger", "ledger.key", "ledger-text-key"])
      rmSync(join(harness.dir, name), { recursive: true, force: true });
    harness.acknowledged.clear();
    await harness.start();
    await harness.send("append 2 100");
  };
  await reset();
  const tracer = await harness.trace(["-e", TRACED_CALLS]);
  expect(await harness.send("encrypt")).toBe(true);
  await tracer.detach();
  await harness.end();
  const calls = parseSystemCalls(await tracer.log()).filter(isFlush);
  expect(calls.map(({ name }) => name)).toContain("ftruncate");

  let killed = 0;
  for (const { name, nth } of calls) {
    await reset();
    const inject = `inject=${name}:signal=SIGKILL:when=${nth}`;
    const injected = await harness.trace(["-e", `trace=${name}`, "-e", inject]);
    if (!(await harness.send("encrypt"))) killed += 1;
    await harness.end();
    await injected.detach();
    assertNothingIsLost(harness);
    await harness.start();
    await harness.send("append 1 100");
    expect(await harness.send("encrypt")).toBe(true);
    await harness.end("end");
    assertNothingIsLost(harness);
    expect(verifyLedgerAt(harness.dir)).toMatchObject({ status: "whole", sealed: 3, unchecked: 0 });
    editDatabase(harness.dir, (db) =>
      expect(db.prepare("SELECT count(*) FROM sealed").pluck().get()).toBe(0),
    );
  }
  expect(killed).toBeGreaterThan(calls.length * 0.5);
});

describe("an I/O error of the ledger", () => {
  it.each([
    ["fsync,fdatasync", "EIO"],
    ["pwrite64", "EIO"],
    ["pwrite64,openat,ftruncate", "EROFS"],
  ])(
    "in the system calls %s (%s) makes appends fail but loses no entry, and afterwards appends succeed",
    async (calls, code) => {
      await using harness = new LedgerHarness();
      await harness.start();
      await harness.send("append 3 100");
      const tracer = await harness.trace([
        "-e",
        `trace=${calls}`,
        "-e",
        `inject=${calls}:error=${code}`,
      ]);
      const before = harness.acknowledged.size;
      await harness.send("append 3 100");
      expect(harness.acknowledged.size).toBe(before);
      expect(harness.refusals).toEqual(Array.from({ length: 3 }, () => "ledger_unavailable"));
      expect(await harness.state()).toMatchObject({ ok: false, lastError: { kind: "io" } });
      await harness.send("append 1 100");
      expect(harness.refusals.length).toBe(4);
      await tracer.detach();
      await harness.waitForState("open again", (state) => state.ok);
      await harness.send("append 3 100");
      expect(harness.acknowledged.size).toBe(before + 3);
      await harness.end("end");
      assertNothingIsLost(harness);
    },
  );

  it("that occurs once, at any flush or write of an append, fails only that append", async () => {
    await using harness = new LedgerHarness();
    await harness.start();
    for (const [call, nth] of [
      ["fsync", 1],
      ["pwrite64", 1],
      ["pwrite64", 2],
      ["pwrite64", 5],
    ] as const) {
      await harness.send("append 1 100");
      const before = harness.acknowledged.size;
      const tracer = await harness.trace([
        "-e",
        `trace=${call}`,
        "-e",
        `inject=${call}:error=EIO:when=${nth}`,
      ]);
      await harness.send("append 1 100");
      expect([call, nth, harness.acknowledged.size]).toEqual([call, nth, before]);
      await harness.waitForState("open again", (state) => state.ok);
      await harness.send("append 1 100");
      expect(harness.acknowledged.size).toBe(before + 1);
      await tracer.detach();
      assertNothingIsLost(harness);
    }
  });
});

describe("a read-only directory of the ledger", () => {
  it("makes every append fail until it is writable again", async () => {
    await using harness = new LedgerHarness();
    await harness.start();
    await harness.send("append 3 100");
    await harness.end("end");
    const below = join(harness.dir, "ledger");
    const unmount = harness.mount("ledger", ["--bind", "-o", "ro", below]);
    await harness.start();
    expect(await harness.state()).toMatchObject({ ok: false, size: 0, lastError: { kind: "io" } });
    await harness.send("append 3 100");
    expect(harness.refusals).toEqual(Array.from({ length: 3 }, () => "ledger_unavailable"));
    await unmount();
    await harness.waitForState("open", (state) => state.ok);
    await harness.send("append 3 100");
    expect(harness.acknowledged.size).toBe(6);
    await harness.end("end");
    assertNothingIsLost(harness);
  });
});

describe("a full disk below the ledger", () => {
  it("is recorded once, and makes appends fail until there is space", async () => {
    await using harness = new LedgerHarness();
    harness.mount("ledger", ["-t", "tmpfs", "-o", "size=32m", "tmpfs"]);
    await harness.start();
    await harness.send("append 3 100");
    const ballast = join(harness.dir, "ledger/ballast");
    fillDisk(ballast);
    while (harness.refusals.length === 0) await harness.send("append 4 40000");
    await harness.waitForState("full, and that is on record", ({ full, ok }) => full && !ok);
    const before = harness.acknowledged.size;
    await harness.send("append 2 100");
    expect(harness.acknowledged.size).toBe(before);
    expect(new Set(harness.refusals)).toEqual(new Set(["ledger_unavailable"]));
    expect(listEntryNames(harness).at(-1)).toBe("ledger.disk_full");
    assertNothingIsLost(harness);

    rmSync(ballast);
    await harness.waitForState("open again", ({ full, ok }) => ok && !full);
    await harness.send("append 2 100");
    expect(harness.acknowledged.size).toBe(before + 2);
    await harness.end("end");
    expect(listEntryNames(harness).filter((name) => name === "ledger.disk_full")).toHaveLength(1);
    assertNothingIsLost(harness);
  });

  it("at the start does not crash the process, and makes appends fail until there is space", async () => {
    await using harness = new LedgerHarness();
    harness.mount("ledger", ["-t", "tmpfs", "-o", "size=16m", "tmpfs"]);
    const ballast = join(harness.dir, "ledger/ballast");
    fillDisk(ballast);
    await harness.start();
    expect(await harness.state()).toMatchObject({ ok: false, lastError: { kind: "full" } });
    await harness.send("append 1 100");
    expect(harness.refusals).toEqual(["ledger_unavailable"]);
    rmSync(ballast);
    await harness.waitForState("open", (state) => state.ok);
    await harness.send("append 1 100");
    expect(harness.acknowledged.size).toBe(1);
    await harness.end("end");
    assertNothingIsLost(harness);
  });
});
