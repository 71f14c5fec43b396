import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { inspectPartial } from "../../src/controller/models/files/partial-file.ts";
import type { ByteRanges } from "../../src/controller/models/files/ranges.ts";
import { bundleProgram } from "../support/bundle-program.ts";
import { Dice } from "../support/random.ts";
import { SEED } from "../support/sampling.ts";
import {
  createRandomBytes,
  DownloadHarness,
  hashSha256,
  MIB,
  neverAborted,
  readStored,
  recordProgress,
  withFile,
} from "./download-harness.ts";

const PROGRAM = await bundleProgram("test/support/download-process.ts");
const SIZE = 40 * MIB + 11;
const KILLS = 16;
const BYTES_PER_SECOND = 12 * MIB;

/**
 * Runs the download process until it ends, or kills it `killAfterMs` after its first byte. Returns its last line of
 * output. `around` is a program, with its options, that runs the process.
 */
async function run(
  args: readonly string[],
  killAfterMs: number | undefined,
  around: readonly string[] = [],
): Promise<string> {
  const words = [...around, process.execPath, PROGRAM, ...args];
  const [program = "", ...rest] = words;
  const child = spawn(program, rest, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let last = "";
  let timer: NodeJS.Timeout | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    last = line;
    if (killAfterMs !== undefined && line.startsWith("at "))
      timer ??= setTimeout(() => child.kill("SIGKILL"), killAfterMs);
  }
  await ended;
  clearTimeout(timer);
  return last;
}

describe("after kill -9 of a download", () => {
  let bytes: Buffer;
  let harness: DownloadHarness;

  beforeEach(async () => {
    bytes = createRandomBytes(SIZE);
    harness = await DownloadHarness.open({ "m.gguf": bytes });
  });

  afterEach(async () => {
    await harness[Symbol.asyncDispose]();
  });

  function partialDir(): string {
    return join(harness.dir, "partial", `sha256-${hashSha256(bytes)}`);
  }

  async function claimed(): Promise<ByteRanges> {
    return (await inspectPartial(partialDir())).entry?.ranges ?? [];
  }

  /** Checks that all bytes that the journal lists are on the disk and correct, and returns their number. */
  async function journaled(): Promise<number> {
    const dir = partialDir();
    const { entry, bytes: count } = await inspectPartial(dir);
    if (!existsSync(join(dir, "data"))) return 0;
    const file = await open(join(dir, "data"));
    try {
      for (const { start, end } of entry?.ranges ?? []) {
        const there = Buffer.alloc(end - start);
        await file.read(there, 0, there.length, start);
        expect([start, there.equals(bytes.subarray(start, end))]).toEqual([start, true]);
      }
    } finally {
      await file.close();
    }
    return count;
  }

  it("at a random time, the next run downloads only the bytes that are not in the download's journal", async () => {
    const dice = new Dice(SEED);
    process.stdout.write(`BERTH_SEED=${SEED}\n`);
    const args = [harness.dir, harness.buildUrl("m.gguf"), String(SIZE), hashSha256(bytes)];
    let kills = 0;
    let gained = 0;
    let isDone = false;
    for (let round = 0; round < KILLS; round += 1) {
      const before = await journaled();
      const last = await run([...args, String(BYTES_PER_SECOND)], dice.between(0, 700));
      const after = await journaled();
      isDone = last.startsWith("done");
      if (isDone) break;
      kills += 1;
      // The kill came after the last byte: the file is no longer in the folder of partial downloads, because it is
      // complete.
      if (before > 0 && !existsSync(join(partialDir(), "data"))) return;
      expect([SEED, round, after >= before]).toEqual([SEED, round, true]);
      if (after > before) gained += 1;
    }
    expect([SEED, kills > 2, gained > 0]).toEqual([SEED, true, true]);
    const kept = await claimed();
    const requestsBefore = harness.hub.requests.length;
    const ended = await run(args, undefined);
    expect([SEED, ended.split(" ")[0]]).toEqual([SEED, "done"]);
    expect((await readStored(ended.slice("done ".length))).equals(bytes)).toBe(true);
    const asked = harness.hub.requests
      .slice(requestsBefore)
      .filter(({ server }) => server === "cdn");
    // If the download is faster than the kills, or is killed after its last byte, nothing is left to download.
    const keptBytes = kept.reduce((sum, { start, end }) => sum + end - start, 0);
    expect([SEED, asked.length > 0]).toEqual([SEED, !isDone && keptBytes < SIZE]);
    for (const { headers } of asked) {
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
      const there = kept.filter(({ start, end }) => Number(first) < end && start <= Number(last));
      expect([SEED, headers.range, there]).toEqual([SEED, headers.range, []]);
    }
  });

  it.each(["fdatasync", "fsync", "pwrite64", "rename", "symlink", "unlink", "rmdir"])(
    "at any system call %s, the download's journal lists only bytes that are on the disk, and the next run completes the download",
    async (call) => {
      const small = bytes.subarray(0, 2 * MIB);
      const url = await harness.hub.addFile("/files/small", small);
      const model = withFile(harness.model("key", { "m.gguf": small }), {
        location: { type: "url", url },
      });
      let killed = 0;
      let isDone = false;
      for (let nth = 1; nth <= 20 && !isDone; nth += 1) {
        await rm(harness.dir, { recursive: true, force: true });
        await mkdir(harness.dir, { mode: 0o700 });
        const args = [harness.dir, url, String(small.length), hashSha256(small)];
        // The trace includes only calls on the files of the download, because the program's loader opens other files.
        const tracer = ["-f", "-qq", "-o", "/dev/null", ...pathsOf(harness.dir, small)];
        const inject = ["-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${nth}`];
        const last = await run(args, undefined, ["strace", ...tracer, ...inject]);
        isDone = last.startsWith("done");
        if (!isDone) killed += 1;
        const sentBefore = harness.hub.bytesSent;
        const kept = await harness.disk().storedBytes(model);
        const stored = await harness.disk().download(model, recordProgress(), neverAborted);
        expect((await readStored(stored.path)).equals(small)).toBe(true);
        expect(harness.hub.bytesSent - sentBefore).toBe(small.length - kept);
      }
      // The last run makes fewer than `nth` calls of the system call under test. So it is not killed, and completes the
      // download.
      expect([isDone, killed > 0]).toEqual([true, true]);
    },
  );
});

/** Returns the strace options that select the files and folders that the download of `bytes` writes. */
function pathsOf(dir: string, bytes: Buffer): string[] {
  const sha256 = hashSha256(bytes);
  const partial = `partial/sha256-${sha256}`;
  const paths = [
    "partial",
    partial,
    `${partial}/data`,
    `${partial}/journal`,
    "blobs",
    `blobs/${sha256}`,
    `blobs/${sha256}.json`,
    `blobs/${sha256}.json.new`,
    "views",
    "views/key",
    "views/key/m.gguf",
    "views/key/m.gguf.new",
  ];
  return paths.flatMap((path) => ["-P", join(dir, path)]);
}
