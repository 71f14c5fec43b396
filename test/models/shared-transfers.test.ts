import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ModelDisk } from "../../src/controller/models/files/model-disk.ts";
import type { ResolvedModel } from "../../src/controller/models/hub/port.ts";
import {
  createRandomBytes,
  DownloadHarness,
  MIB,
  neverAborted,
  quickLimits,
  readStored,
  recordProgress,
  withFile,
} from "./download-harness.ts";

const SIZE = 12 * MIB;
const NAME = "m.gguf";
/**
 * The number of bytes that the hub may send twice: if Berth divides a slow part of a file, the bytes that are still in
 * the socket's buffers are requested again.
 */
const DIVIDED = 3 * MIB;

describe("downloads of two models with the same content", () => {
  let harness: DownloadHarness;
  let bytes: Buffer;
  let disk: ModelDisk;
  let first: ResolvedModel;
  let second: ResolvedModel;

  beforeEach(async () => {
    bytes = createRandomBytes(SIZE);
    harness = await DownloadHarness.open({ [NAME]: bytes });
    disk = harness.disk();
    first = harness.model("first", { [NAME]: bytes });
    second = withFile(harness.model("second", { [NAME]: bytes }), { name: "other.gguf" });
  });

  afterEach(async () => {
    await harness[Symbol.asyncDispose]();
  });

  it("share one transfer, and both get its progress", async () => {
    const [a, b] = [recordProgress(), recordProgress()];
    const stored = await Promise.all([
      disk.download(first, a, neverAborted),
      disk.download(second, b, neverAborted),
    ]);
    for (const { path } of stored) expect((await readStored(path)).equals(bytes)).toBe(true);
    expect(harness.hub.bytesSent).toBeLessThan(SIZE + DIVIDED);
    for (const { told } of [a, b]) {
      expect(told.at(-1)).toMatchObject({ doneBytes: SIZE, totalBytes: SIZE });
      expect(told.length).toBeGreaterThan(1);
    }
    expect(await readdir(join(harness.dir, "partial"))).toEqual([]);
  });

  it("need only one transfer if they run one after the other", async () => {
    await disk.download(first, recordProgress(), neverAborted);
    expect(await disk.find(second)).toBeUndefined();
    expect(await disk.storedBytes(second)).toBe(SIZE);
    const { path } = await disk.download(second, recordProgress(), neverAborted);
    expect((await readStored(path)).equals(bytes)).toBe(true);
    expect(harness.hub.bytesSent).toBeLessThan(SIZE + DIVIDED);
  });

  it("continue for one model when the download of the other one is aborted", async () => {
    harness.hub.faults.add({ on: "cdn", type: "slow", bytesPerSecond: 4 * MIB });
    const abort = new AbortController();
    const leaving = disk.download(first, recordProgress(), abort.signal);
    const staying = disk.download(second, recordProgress(), neverAborted);
    leaving.catch(() => {});
    await waitForMoreThan(MIB, () => harness.hub.bytesSent);
    abort.abort();
    await expect(leaving).rejects.toMatchObject({ name: "AbortError" });
    expect((await readStored((await staying).path)).equals(bytes)).toBe(true);
    expect(harness.hub.bytesSent).toBeLessThan(SIZE + DIVIDED);
  });

  it("stop when both are aborted, and the received bytes are kept", async () => {
    harness.hub.faults.add({ on: "cdn", type: "slow", bytesPerSecond: 4 * MIB });
    const abort = new AbortController();
    const both = Promise.allSettled(
      [first, second].map((model) => disk.download(model, recordProgress(), abort.signal)),
    );
    await waitForMoreThan(3 * MIB, () => harness.hub.bytesSent);
    abort.abort();
    for (const one of await both)
      expect(one).toMatchObject({ status: "rejected", reason: { name: "AbortError" } });
    const kept = await disk.storedBytes(first);
    expect(kept).toBeGreaterThan(MIB);
    harness.hub.faults.clear();
    // A download can start immediately on the same disk, because the aborted transfer has ended.
    const before = harness.hub.bytesSent;
    await disk.download(second, recordProgress(), neverAborted);
    expect(harness.hub.bytesSent - before).toBeLessThan(SIZE - kept + DIVIDED);
  });

  it("do not share a refusal: the download that has a token succeeds", async () => {
    const url = await harness.hub.addFile("/files/x.gguf", bytes, { needsToken: true });
    const [without, withToken] = [first, second].map((model) =>
      withFile(model, { location: { type: "url", url } }),
    );
    if (!without || !withToken) throw new Error("two models");
    // The first transfer, which has no token, stalls, so the second download joins it. Then the hub refuses the first
    // transfer's retry.
    harness.hub.faults.add({ on: "files", type: "hang", times: 1 });
    disk = harness.disk({ limits: { ...quickLimits, stallMs: 2_000 } });
    const leading = disk
      .download(without, recordProgress(), neverAborted)
      .catch((error: unknown) => error);
    await expect.poll(() => harness.hub.requests.length, { interval: 5 }).toBe(1);
    const { path } = await disk.download(
      withToken,
      recordProgress(harness.hub.token),
      neverAborted,
    );
    expect((await readStored(path)).equals(bytes)).toBe(true);
    expect(await leading).toMatchObject({ code: "hub_denied" });
  });
});

describe("the progress of a download", () => {
  it("is reported about ten times a second, and never decreases", async () => {
    const bytes = createRandomBytes(6 * MIB);
    await using harness = await DownloadHarness.open({ [NAME]: bytes });
    harness.hub.faults.add({ on: "cdn", type: "slow", bytesPerSecond: 4 * MIB });
    const watched = recordProgress();
    const start = performance.now();
    await harness
      .disk({ partsMax: 1 })
      .download(harness.model("k", { [NAME]: bytes }), watched, neverAborted);
    const tenths = (performance.now() - start) / 100;
    expect(watched.told.length).toBeLessThan(tenths + 4);
    expect(watched.told.length).toBeGreaterThan(4);
    const done = watched.told
      .filter(({ step }) => step === "downloading")
      .map(({ doneBytes }) => doneBytes);
    expect(done).toEqual(done.toSorted((a, b) => a - b));
  });
});

describe("the bandwidth limit", () => {
  it("applies to all downloads together, with a tolerance of 15 %", async () => {
    const contents = { "a.gguf": createRandomBytes(6 * MIB), "b.gguf": createRandomBytes(6 * MIB) };
    await using harness = await DownloadHarness.open(contents);
    const disk = harness.disk({ bandwidthBytesPerSecond: 4 * MIB });
    const start = performance.now();
    await Promise.all(
      Object.entries(contents).map(([name, bytes]) =>
        disk.download(harness.model(name, { [name]: bytes }), recordProgress(), neverAborted),
      ),
    );
    const seconds = (performance.now() - start) / 1000;
    expect(seconds).toBeGreaterThan(3 * 0.85);
    expect(seconds).toBeLessThan(3 * 1.15);
  });
});

async function waitForMoreThan(bytes: number, read: () => number): Promise<void> {
  for (const deadline = Date.now() + 30_000; read() <= bytes; ) {
    if (Date.now() > deadline) throw new Error(`never more than ${bytes} bytes: ${read()}`);
    await pause(10);
  }
}
