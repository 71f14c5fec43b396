import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { AppMemory } from "../../src/assistant/context/memory/app-memory.ts";
import { systemClock } from "../../src/base/clock.ts";
import { bundleProgram } from "../support/bundle-program.ts";
import { FakeLedger } from "../support/fake-ledger.ts";
import { fillDisk } from "../support/fill-disk.ts";
import { LedgerHarness } from "../support/ledger-harness.ts";
import {
  findFilesWith,
  NOTES,
  OTHER,
  readAppSecret,
  readSealedValues,
  unconfinedCaller,
} from "../support/memory-harness.ts";

const PROGRAM = await bundleProgram("test/support/memory-process.mjs");

/**
 * The test kills the process at every STEP-th system call of a memory wipe. If STEP is 1, the test tries every system
 * call.
 */
const STEP = Number(process.env["BERTH_MEMORY_KILL_STEP"] ?? 3);

const TRACED_CALLS =
  "trace=pwrite64,pread64,fsync,fdatasync,ftruncate,openat,write,close,rename,unlink,fcntl";

const values = [
  ["short", 20],
  ["long", 9_000],
] as const;

async function fillMemory(harness: LedgerHarness): Promise<void> {
  for (const app of [NOTES, OTHER])
    for (const [key, bytes] of values) await harness.send(`set ${app} ${key} ${bytes}`);
}

/**
 * Returns the number of values that a new daemon reads for each app. Each app must have all of its values or none.
 */
async function countKeptItems(dir: string): Promise<Record<string, number>> {
  await using memory = new AppMemory({ dir, ledger: new FakeLedger(), clock: systemClock });
  const kept: Record<string, number> = {};
  for (const app of [NOTES, OTHER]) {
    const listed = await memory.list(app, unconfinedCaller);
    for (const [key, value] of listed)
      expect(value).toBe(`canary-${key}-`.padEnd(key === "long" ? 9_000 : 20, "v"));
    kept[app] = listed.size;
  }
  return kept;
}

function parseSystemCalls(log: string): { name: string; nth: number }[] {
  const counts = new Map<string, number>();
  const calls = [...log.matchAll(/^(\d+) +([a-z0-9_]+)\(/gm)];
  // The thread that calls pwrite64 is the main thread, which alone uses SQLite, the key file and standard input.
  const main = calls.find(([, , name]) => name === "pwrite64")?.[1];
  return calls
    .filter(([, thread]) => thread === main)
    .map(([, , name = ""]) => {
      const nth = (counts.get(name) ?? 0) + 1;
      counts.set(name, nth);
      return { name, nth };
    });
}

describe("SIGKILL", () => {
  it("at any system call of a wipe leaves the whole memory of an app, or no byte of it", async () => {
    await using harness = new LedgerHarness(PROGRAM);
    await harness.start();
    await fillMemory(harness);
    const tracer = await harness.trace(["-e", TRACED_CALLS]);
    expect(await harness.send(`wipe ${NOTES}`)).toBe(true);
    await tracer.detach();
    await harness.end();
    const calls = parseSystemCalls(await tracer.log());
    expect(calls.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["pwrite64", "fsync", "unlink", "ftruncate"]),
    );

    const seen = new Set<string>();
    for (const { name, nth } of calls.filter((_, index) => index % STEP === 0)) {
      await harness.start();
      await fillMemory(harness);
      const searched = [
        readAppSecret(harness.dir, NOTES),
        ...readSealedValues(harness.dir, NOTES),
      ].map((bytes) => bytes.subarray(0, 24));
      rmSync(join(harness.dir, "entries"));
      const inject = `inject=${name}:signal=SIGKILL:when=${nth}`;
      const injected = await harness.trace(["-e", `trace=${name}`, "-e", inject]);
      const isAnswered = await harness.send(`wipe ${NOTES}`);
      await harness.end();
      await injected.detach();
      // The test searches the files before the next start, which would delete the remains of the wiped memory.
      expect(findFilesWith(harness.dir, "canary-")).toEqual([]);
      const kept = await countKeptItems(harness.dir);
      expect([name, nth, kept[OTHER]]).toEqual([name, nth, values.length]);
      if (kept[NOTES] === 0) {
        expect(readFileSync(join(harness.dir, "entries"), "utf8")).toBe(`memory.wipe ${NOTES}\n`);
        for (const bytes of searched)
          expect([name, nth, findFilesWith(harness.dir, bytes)]).toEqual([name, nth, []]);
      } else
        expect([name, nth, kept[NOTES], isAnswered]).toEqual([name, nth, values.length, false]);
      seen.add(`${kept[NOTES]} ${isAnswered}`);
    }
    // Some kills happened before the transaction of the wipe was committed, and some after it.
    expect([...seen]).toEqual(expect.arrayContaining([`${values.length} false`, "0 false"]));
  });
});

describe("a disk", () => {
  it("that is full makes writes fail, keeps stored values, and accepts writes again when there is space", async () => {
    await using harness = new LedgerHarness(PROGRAM);
    harness.mount("small", ["-t", "tmpfs", "-o", "size=1m", "tmpfs"]);
    const dir = join(harness.dir, "small");
    const memory = new AppMemory({ dir, ledger: new FakeLedger(), clock: systemClock });
    try {
      await memory.set(NOTES, "k", "before", unconfinedCaller);
      fillDisk(join(dir, "ballast"));
      const value = "x".repeat(60_000);
      const full = { code: "storage_failed", message: expect.stringMatching(/^the disk is full;/) };
      await expect(memory.set(NOTES, "k", value, unconfinedCaller)).rejects.toMatchObject(full);
      await expect(memory.set(OTHER, "k", value, unconfinedCaller)).rejects.toMatchObject(full);
      expect(await memory.get(NOTES, "k", unconfinedCaller)).toBe("before");
      expect((await memory.list(OTHER, unconfinedCaller)).size).toBe(0);
      rmSync(join(dir, "ballast"));
      await memory.set(NOTES, "k", value, unconfinedCaller);
      expect(await memory.get(NOTES, "k", unconfinedCaller)).toBe(value);
    } finally {
      await memory[Symbol.asyncDispose]();
    }
  });

  it("that is read-only makes writes fail, and stored values stay readable", async () => {
    await using harness = new LedgerHarness(PROGRAM);
    const dir = join(harness.dir, "below");
    const ledger = new FakeLedger();
    {
      await using memory = new AppMemory({ dir, ledger, clock: systemClock });
      await memory.set(NOTES, "k", "before", unconfinedCaller);
    }
    const unmount = harness.mount("below", ["--bind", "-o", "ro", dir]);
    const refused = { code: "storage_failed", message: expect.stringMatching(/cannot be used/) };
    await using other = new AppMemory({ dir, ledger, clock: systemClock });
    await expect(other.set(OTHER, "k", "v", unconfinedCaller)).rejects.toMatchObject(refused);
    await unmount();
    await other.set(OTHER, "k", "v", unconfinedCaller);
    expect(await other.get(NOTES, "k", unconfinedCaller)).toBe("before");
  });
});
