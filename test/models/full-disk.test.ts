import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BerthError } from "../../src/base/errors.ts";
import {
  createRandomBytes,
  DownloadHarness,
  MIB,
  neverAborted,
  readStored,
  recordProgress,
} from "./download-harness.ts";

const NAME = "m.gguf";
const SIZE = 24 * MIB;

function asRoot(program: string, ...args: string[]): void {
  const isRoot = process.getuid?.() === 0;
  const [command, words] = isRoot ? [program, args] : ["sudo", ["-n", program, ...args]];
  execFileSync(command, words, { stdio: ["ignore", "ignore", "pipe"] });
}

describe("a download to a full disk", () => {
  let bytes: Buffer;
  let harness: DownloadHarness;

  beforeEach(async () => {
    bytes = createRandomBytes(SIZE);
    harness = await DownloadHarness.open({ [NAME]: bytes });
    mkdirSync(harness.dir);
    asRoot("mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "tmpfs", harness.dir);
  });

  afterEach(async () => {
    asRoot("umount", harness.dir);
    await harness[Symbol.asyncDispose]();
  });

  it("fails before the first byte, with the number of missing bytes", async () => {
    const model = harness.model("key", { [NAME]: bytes });
    const error = await harness
      .disk()
      .download(model, recordProgress(), neverAborted)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "disk_full" });
    if (!(error instanceof BerthError)) throw error;
    expect(error.message).toMatch(
      /needs 24 MiB more, and 3\d(\.\d)? MiB are free .*: 5\d(\.\d)? MiB are missing/,
    );
    expect(error.message).not.toContain(harness.dir);
    expect(harness.hub.requests).toEqual([]);
  });

  it("fails if other downloads have reserved the free space", async () => {
    const contents = { a: createRandomBytes(40 * MIB), b: createRandomBytes(40 * MIB) };
    await harness.hub.addRepository({ id: "org/model", files: contents });
    harness.hub.faults.add({ on: "resolve", type: "hang" });
    const disk = harness.disk({ freeBytes: async () => 140 * MIB });
    const abort = new AbortController();
    const model = (name: "a" | "b") => harness.model(name, { [name]: contents[name] });
    const first = disk.download(model("a"), recordProgress(), abort.signal).catch(() => undefined);
    // A download reserves its space before its first request, so its first request shows that the space is reserved.
    await expect.poll(() => harness.hub.requests.length).toBeGreaterThan(0);
    // The disk has space for one of the two files in addition to the reserve that Berth keeps free.
    await expect(disk.download(model("b"), recordProgress(), neverAborted)).rejects.toMatchObject({
      code: "disk_full",
      details: { neededBytes: 80 * MIB },
    });
    abort.abort();
    await first;
  });

  it("fails during the transfer, keeps the received bytes, and resumes when there is space", async () => {
    const model = harness.model("key", { [NAME]: bytes });
    const filler = join(harness.dir, "filler");
    await writeFile(filler, Buffer.alloc(20 * MIB));
    // The disk reports enough free space, so the check passes, but the transfer then fills the disk.
    const disk = harness.disk({ freeBytes: async () => 1000 * MIB });
    await expect(disk.download(model, recordProgress(), neverAborted)).rejects.toMatchObject({
      code: "disk_full",
      message: expect.stringContaining("became full"),
    });
    const kept = await disk.storedBytes(model);
    const { blocks, bavail } = await statfs(harness.dir);
    expect([bavail, blocks > 0]).toEqual([0, true]);
    expect(kept).toBeGreaterThan(4 * MIB);
    asRoot("rm", filler);
    const before = harness.hub.bytesSent;
    const { path } = await disk.download(model, recordProgress(), neverAborted);
    expect((await readStored(path)).equals(bytes)).toBe(true);
    expect(harness.hub.bytesSent - before).toBe(SIZE - kept);
  });
});
