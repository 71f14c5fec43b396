import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import { fillDisk } from "../support/fill-disk.ts";
import { LedgerHarness } from "../support/ledger-harness.ts";

/** Asserts that all acknowledged entries exist and that the ledger is whole. */
function assertNothingIsLost(world: LedgerHarness): void {
  using offline = OfflineLedger.open(world.dir);
  expect(offline.verify()).toMatchObject({ status: "whole", reason: "" });
  const stored = new Map(offline.tail(100_000).map(({ body, leaf }) => [body.seq, leaf]));
  for (const [seq, leaf] of world.acknowledged) expect([seq, stored.get(seq)]).toEqual([seq, leaf]);
}

function listEntryNames(world: LedgerHarness): string[] {
  using offline = OfflineLedger.open(world.dir);
  return offline.tail(100_000).map(({ body }) => body.name);
}

/** The system calls of the writing thread in order: `pwrite64` 1, `pwrite64` 2, `fsync` 1 ... */
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

describe("SIGKILL", () => {
  it.each([
    ["an append", "append 2 100", ["pwrite64", "fsync", "fcntl"]],
    ["a saved checkpoint", "checkpoint", ["openat", "write", "fsync", "rename"]],
  ])(
    "at each system call of %s loses nothing that was acknowledged",
    async (_, command, expected) => {
      await using world = new LedgerHarness();
      await world.start();
      await world.send("append 2 100");
      const tracer = await world.trace(["-e", TRACED_CALLS]);
      expect(await world.send(command)).toBe(true);
      await tracer.detach();
      await world.end();
      const calls = parseSystemCalls(await tracer.log());
      expect(calls.map(({ name }) => name)).toEqual(expect.arrayContaining(expected));
      expect(calls.length).toBeGreaterThan(5);

      let killed = 0;
      for (const { name, nth } of calls) {
        await world.start();
        await world.send("append 2 100");
        const injected = await world.trace([
          "-e",
          `trace=${name}`,
          "-e",
          `inject=${name}:signal=SIGKILL:when=${nth}`,
        ]);
        if (!(await world.send(command))) killed += 1;
        await world.end();
        await injected.detach();
        assertNothingIsLost(world);
      }
      // In another run, a call after the answer may come slightly later or earlier.
      expect(killed).toBeGreaterThan(calls.length * 0.7);
      expect(world.refusals).toEqual([]);
    },
  );
});

describe("an I/O error", () => {
  it.each([
    ["fsync,fdatasync", "EIO"],
    ["pwrite64", "EIO"],
    ["pwrite64,openat,ftruncate", "EROFS"],
  ])(
    "of %s (%s): refused, nothing lost, and accepted again once it is over",
    async (calls, code) => {
      await using world = new LedgerHarness();
      await world.start();
      await world.send("append 3 100");
      const tracer = await world.trace([
        "-e",
        `trace=${calls}`,
        "-e",
        `inject=${calls}:error=${code}`,
      ]);
      const before = world.acknowledged.size;
      await world.send("append 3 100");
      expect(world.acknowledged.size).toBe(before);
      expect(world.refusals).toEqual(Array.from({ length: 3 }, () => "ledger_unavailable"));
      expect(await world.state()).toMatchObject({ ok: false, lastError: { kind: "io" } });
      await world.send("append 1 100");
      expect(world.refusals.length).toBe(4);
      await tracer.detach();
      await world.waitForState("open again", (state) => state.ok);
      await world.send("append 3 100");
      expect(world.acknowledged.size).toBe(before + 3);
      await world.end("end");
      assertNothingIsLost(world);
    },
  );

  it("that occurs once, at any flush or write of an append, fails only that append", async () => {
    await using world = new LedgerHarness();
    await world.start();
    for (const [call, nth] of [
      ["fsync", 1],
      ["pwrite64", 1],
      ["pwrite64", 2],
      ["pwrite64", 5],
    ] as const) {
      await world.send("append 1 100");
      const before = world.acknowledged.size;
      const tracer = await world.trace([
        "-e",
        `trace=${call}`,
        "-e",
        `inject=${call}:error=EIO:when=${nth}`,
      ]);
      await world.send("append 1 100");
      expect([call, nth, world.acknowledged.size]).toEqual([call, nth, before]);
      await world.waitForState("open again", (state) => state.ok);
      await world.send("append 1 100");
      expect(world.acknowledged.size).toBe(before + 1);
      await tracer.detach();
      assertNothingIsLost(world);
    }
  });
});

describe("a read-only directory", () => {
  it("makes every append fail until it is writable again", async () => {
    await using world = new LedgerHarness();
    await world.start();
    await world.send("append 3 100");
    await world.end("end");
    const below = join(world.dir, "ledger");
    const unmount = world.mount("ledger", ["--bind", "-o", "ro", below]);
    await world.start();
    expect(await world.state()).toMatchObject({ ok: false, size: 0, lastError: { kind: "io" } });
    await world.send("append 3 100");
    expect(world.refusals).toEqual(Array.from({ length: 3 }, () => "ledger_unavailable"));
    await unmount();
    await world.waitForState("open", (state) => state.ok);
    await world.send("append 3 100");
    expect(world.acknowledged.size).toBe(6);
    await world.end("end");
    assertNothingIsLost(world);
  });
});

describe("a full disk", () => {
  it("is recorded once, makes appends fail, and recovers when there is space", async () => {
    await using world = new LedgerHarness();
    world.mount("ledger", ["-t", "tmpfs", "-o", "size=32m", "tmpfs"]);
    await world.start();
    await world.send("append 3 100");
    const ballast = join(world.dir, "ledger/ballast");
    fillDisk(ballast);
    while (world.refusals.length === 0) await world.send("append 4 40000");
    await world.waitForState("full, and that is on record", ({ full, ok }) => full && !ok);
    const before = world.acknowledged.size;
    await world.send("append 2 100");
    expect(world.acknowledged.size).toBe(before);
    expect(new Set(world.refusals)).toEqual(new Set(["ledger_unavailable"]));
    expect(listEntryNames(world).at(-1)).toBe("ledger.disk_full");
    assertNothingIsLost(world);

    rmSync(ballast);
    await world.waitForState("open again", ({ full, ok }) => ok && !full);
    await world.send("append 2 100");
    expect(world.acknowledged.size).toBe(before + 2);
    await world.end("end");
    expect(listEntryNames(world).filter((name) => name === "ledger.disk_full")).toHaveLength(1);
    assertNothingIsLost(world);
  });

  it("at the start does not crash the process, and makes appends fail until there is space", async () => {
    await using world = new LedgerHarness();
    world.mount("ledger", ["-t", "tmpfs", "-o", "size=16m", "tmpfs"]);
    const ballast = join(world.dir, "ledger/ballast");
    fillDisk(ballast);
    await world.start();
    expect(await world.state()).toMatchObject({ ok: false, lastError: { kind: "full" } });
    await world.send("append 1 100");
    expect(world.refusals).toEqual(["ledger_unavailable"]);
    rmSync(ballast);
    await world.waitForState("open", (state) => state.ok);
    await world.send("append 1 100");
    expect(world.acknowledged.size).toBe(1);
    await world.end("end");
    assertNothingIsLost(world);
  });
});
