import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, open, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../src/base/clock.ts";
import { systemClock } from "../../src/base/clock.ts";
import type { ModelDisk } from "../../src/controller/models/files/model-disk.ts";
import type { ResolvedModel } from "../../src/controller/models/hub/port.ts";
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

const DAY_MS = 24 * 3_600_000;

/** Flips a bit of a file. If `hidden` is true, the modification time stays the same, as when a disk fails. */
async function flipBit(path: string, hidden: "hidden" | "seen"): Promise<void> {
  const file = await open(path, "r+");
  try {
    const { atime, mtime } = await file.stat();
    const byte = Buffer.alloc(1);
    await file.read(byte, 0, 1, 1000);
    byte.writeUInt8(byte.readUInt8(0) ^ 4, 0);
    await file.write(byte, 0, 1, 1000);
    if (hidden === "hidden") await file.utimes(atime, mtime);
    else await file.utimes(atime, new Date(mtime.getTime() + 5000));
  } finally {
    await file.close();
  }
}

describe("a stored model", () => {
  const name = "m.gguf";
  let bytes: Buffer;
  let harness: DownloadHarness;
  let model: ResolvedModel;
  let path: string;

  beforeEach(async () => {
    bytes = createRandomBytes(2 * MIB);
    harness = await DownloadHarness.open({ [name]: bytes });
    model = harness.model("key", { [name]: bytes });
    ({ path } = await harness.disk().download(model, recordProgress(), neverAborted));
  });

  afterEach(async () => {
    await harness[Symbol.asyncDispose]();
  });

  it("is found after a restart, and verified by reading", async () => {
    const disk = harness.disk();
    expect(await disk.find(model)).toMatchObject({ path });
    expect(await disk.verify(model, neverAborted)).toEqual(await disk.find(model));
    expect(harness.hub.bytesSent).toBe(bytes.length);
  });

  it("that was modified since the download is verified before the hub is contacted", async () => {
    await utimes(path, new Date(), new Date(Date.now() + 5000));
    const disk = harness.disk();
    expect(await disk.find(model)).toBeUndefined();
    await disk.download(model, recordProgress(), neverAborted);
    expect(harness.hub.bytesSent).toBe(bytes.length);
    expect(await disk.find(model)).toMatchObject({ path });
  });

  it("whose file is damaged and has a new modification time is downloaded again", async () => {
    await flipBit(path, "seen");
    const disk = harness.disk();
    expect(await disk.find(model)).toBeUndefined();
    await disk.download(model, recordProgress(), neverAborted);
    expect((await readStored(path)).equals(bytes)).toBe(true);
    expect(harness.hub.bytesSent).toBe(2 * bytes.length);
  });

  it("whose file is damaged and has its old modification time is removed by verify", async () => {
    await flipBit(path, "hidden");
    const disk = harness.disk();
    const wrong = await readStored(path);
    await expect(disk.verify(model, neverAborted)).rejects.toMatchObject({
      code: "digest_mismatch",
      details: { expected: hashSha256(bytes), got: hashSha256(wrong) },
    });
    expect(await disk.find(model)).toBeUndefined();
    expect(await disk.storedBytes(model)).toBe(0);
    await disk.download(model, recordProgress(), neverAborted);
    expect((await readStored(path)).equals(bytes)).toBe(true);
  });

  it("whose record is unreadable is verified, not downloaded", async () => {
    const note = join(harness.dir, "blobs", `${hashSha256(bytes)}.json`);
    await writeFile(note, "{ half of");
    const disk = harness.disk();
    expect(await disk.find(model)).toBeUndefined();
    await disk.download(model, recordProgress(), neverAborted);
    expect(harness.hub.bytesSent).toBe(bytes.length);
  });

  it("is removed with its model, unless another model has the same content", async () => {
    const disk = harness.disk();
    await disk.download({ ...model, key: "other" }, recordProgress(), neverAborted);
    await disk.remove("key", ["other"]);
    expect(await disk.find(model)).toBeUndefined();
    expect(await disk.find({ ...model, key: "other" })).toBeDefined();
    await disk.remove("other", []);
    expect(await readdir(join(harness.dir, "blobs"))).toEqual([]);
    expect(await readdir(join(harness.dir, "views"))).toEqual([]);
  });

  it("whose file is missing cannot be verified", async () => {
    const disk = harness.disk();
    await disk.remove("key", []);
    await expect(disk.verify(model, neverAborted)).rejects.toMatchObject({ code: "not_found" });
  });

  it.each(["../../out.gguf", "/etc/x.gguf", "a/../../../x", "a//b", ".", "x\0y", "y".repeat(300)])(
    "cannot have a file name that leads out of its folder: %j",
    async (bad) => {
      const before = harness.hub.requests.length;
      await expect(
        harness.disk().download(withFile(model, { name: bad }), recordProgress(), neverAborted),
      ).rejects.toMatchObject({ code: "model_unusable" });
      expect(harness.hub.requests.length).toBe(before);
    },
  );

  it("is verified with git's digest if there is no SHA-256", async () => {
    const given = harness.hub.requests.length;
    await harness.hub.addRepository({
      id: "org/small",
      files: { "config.gguf": { content: bytes, lfs: false } },
    });
    const url = `${harness.hub.url}/org/small/resolve/main/config.gguf`;
    const gitBlob = createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
    const file = { sha256: null, gitBlob, location: { type: "url", url } } as const;
    const small = withFile({ ...model, key: "small" }, file);
    // The downloaded content is already on the disk, so the new file is discarded, and both models share the stored
    // file.
    expect(await harness.disk().download(small, recordProgress(), neverAborted)).toMatchObject({
      files: [{ sha256: hashSha256(bytes) }],
    });
    const wrong = withFile({ ...model, key: "wrong" }, { ...file, gitBlob: "0".repeat(40) });
    const disk = harness.disk();
    await disk.remove("small", []);
    await disk.remove("key", []);
    await expect(disk.download(wrong, recordProgress(), neverAborted)).rejects.toMatchObject({
      code: "digest_mismatch",
      details: { expected: "0".repeat(40), got: gitBlob },
    });
    expect(harness.hub.requests.length).toBeGreaterThan(given);
  });
});

describe("a local file", () => {
  it("is used at its own path, and its content is read only if a digest is expected", async () => {
    const { harness, path, model } = await openLocalHarness(null);
    await using _ = harness;
    const disk = harness.disk();
    const found = { path, files: [{ name: "local.gguf", sizeBytes: MIB, sha256: null }] };
    expect(await disk.find(model)).toEqual(found);
    expect(await disk.download(model, recordProgress(), neverAborted)).toEqual(found);
    expect(await readdir(join(harness.dir, "blobs"))).toEqual([]);
  });

  it("is read once to check an expected digest, and again after a change", async () => {
    const { harness, path, model } = await openLocalHarness("its own");
    await using _ = harness;
    const disk = harness.disk();
    expect(await disk.find(model)).toBeUndefined();
    await disk.download(model, recordProgress(), neverAborted);
    const again = recordProgress();
    await disk.download(model, again, neverAborted);
    expect(again.told.map(({ step }) => step)).not.toContain("verifying");
    expect(await disk.find(model)).toMatchObject({ path });
    await flipBit(path, "seen");
    expect(await disk.find(model)).toBeUndefined();
    await expect(disk.download(model, recordProgress(), neverAborted)).rejects.toMatchObject({
      code: "digest_mismatch",
    });
    // The file belongs to the user and is not removed.
    expect(existsSync(path)).toBe(true);
  });

  it("that is missing causes an error that does not contain its path", async () => {
    const { harness, model } = await openLocalHarness(null);
    await using _ = harness;
    const wanted = withFile(model, { location: { type: "local", path: "/nowhere/x.gguf" } });
    const error = await harness
      .disk()
      .download(wanted, recordProgress(), neverAborted)
      .catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "hub_not_found" });
    expect(String(error)).not.toContain("/nowhere");
  });
});

describe("garbage collection of model files", () => {
  const contents = {
    a: createRandomBytes(MIB),
    b: createRandomBytes(2 * MIB),
    c: createRandomBytes(3 * MIB),
  };

  /** Adds three models that were last used in the order of their names, days apart. */
  async function threeModels(budgetBytes: number) {
    const harness = await DownloadHarness.open(contents);
    let aheadMs = -30 * DAY_MS;
    const clock: Clock = { ...systemClock, now: () => Date.now() + aheadMs };
    const disk = harness.disk({ budgetBytes, clock });
    const models = Object.entries(contents).map(([name, bytes]) =>
      harness.model(`key-${name}`, { [name]: bytes }),
    );
    for (const model of models) {
      await disk.download(model, recordProgress(), neverAborted);
      aheadMs += DAY_MS;
    }
    return { harness, disk, models, later: (ms: number) => (aheadMs += ms) };
  }

  it("removes nothing if the files fit into the budget", async () => {
    const { harness, disk } = await threeModels(6 * MIB + 100_000);
    await using _ = harness;
    expect(await disk.collect([])).toEqual([]);
  });

  it("removes files in order of last use, and only as many as necessary", async () => {
    const { harness, disk, models } = await threeModels(5 * MIB + 100_000);
    await using _ = harness;
    expect(await disk.collect([])).toEqual([{ sha256: hashSha256(contents.a), sizeBytes: MIB }]);
    expect(await Promise.all(models.map((model) => disk.find(model)))).toEqual([
      undefined,
      expect.anything(),
      expect.anything(),
    ]);
    expect(await readdir(join(harness.dir, "views"))).toEqual(["key-b", "key-c"]);
  });

  it("never removes files of a model that the caller keeps, and updates their time of use", async () => {
    const { harness, disk, models, later } = await threeModels(0);
    await using _ = harness;
    const [a] = models;
    if (!a) throw new Error("three models");
    expect((await disk.collect(["key-a"])).map(({ sizeBytes }) => sizeBytes)).toEqual([
      2 * MIB,
      3 * MIB,
    ]);
    expect(await disk.find(a)).toBeDefined();
    later(DAY_MS);
    expect((await disk.collect([])).map(({ sizeBytes }) => sizeBytes)).toEqual([MIB]);
  });

  it("removes partial downloads without a model after a week", async () => {
    const { harness, disk, later } = await threeModels(20 * MIB);
    await using _ = harness;
    await addPartialDownload(harness, disk);
    const partials = () => readdir(join(harness.dir, "partial"));
    later(33 * DAY_MS);
    await disk.collect([]);
    expect(await partials()).toHaveLength(1);
    later(DAY_MS * 2);
    await disk.collect(["half"]);
    expect(await partials()).toHaveLength(1);
    await disk.collect([]);
    expect(await partials()).toEqual([]);
  });

  it("removes partial downloads before complete files if the budget is exceeded", async () => {
    const { harness, disk } = await threeModels(7 * MIB);
    await using _ = harness;
    await addPartialDownload(harness, disk);
    expect(await disk.collect([])).toEqual([]);
    expect(await readdir(join(harness.dir, "partial"))).toEqual([]);
    expect(await readdir(join(harness.dir, "views"))).toHaveLength(3);
  });

  it("removes a partial download with its model, unless another model needs it", async () => {
    const { harness, disk } = await threeModels(20 * MIB);
    await using _ = harness;
    await addPartialDownload(harness, disk);
    await disk.remove("key-a", []);
    expect(await readdir(join(harness.dir, "partial"))).toHaveLength(1);
    await disk.remove("half", []);
    expect(await readdir(join(harness.dir, "partial"))).toEqual([]);
  });

  it("does not touch a running download", async () => {
    const { harness, disk } = await threeModels(0);
    await using _ = harness;
    const bytes = createRandomBytes(4 * MIB);
    const url = await harness.hub.addFile("/files/slow", bytes);
    const model = withFile(harness.model("slow", { slow: bytes }), {
      location: { type: "url", url },
    });
    harness.hub.faults.add({ on: "files", type: "slow", bytesPerSecond: 2 * MIB });
    let collecting: Promise<unknown> = Promise.resolve();
    const stored = await disk.download(
      model,
      {
        token: undefined,
        onProgress: () => {
          collecting = collecting.then(() => disk.collect([])).then(() => disk.remove("slow", []));
        },
      },
      neverAborted,
    );
    expect((await readStored(stored.path)).equals(bytes)).toBe(true);
    await collecting;
  });

  it("removes the leftovers of a crash from the folder of stored model files", async () => {
    const { harness, disk } = await threeModels(9 * MIB);
    await using _ = harness;
    await writeFile(join(harness.dir, "blobs", `${"0".repeat(64)}.json`), "{}");
    await writeFile(join(harness.dir, "blobs", `${"1".repeat(64)}.json.new`), "{");
    await mkdir(join(harness.dir, "partial", "strange"));
    await disk.collect([]);
    expect(await readdir(join(harness.dir, "blobs"))).toHaveLength(6);
    expect(await readdir(join(harness.dir, "partial"))).toEqual([]);
  });
});

async function openLocalHarness(sha256: string | null) {
  const bytes = createRandomBytes(MIB);
  const harness = await DownloadHarness.open({});
  const path = join(harness.root, "local.gguf");
  await writeFile(path, bytes);
  const model: ResolvedModel = {
    key: "local",
    commit: null,
    quantization: null,
    files: [
      {
        name: "local.gguf",
        sizeBytes: MIB,
        sha256: sha256 === "its own" ? hashSha256(bytes) : sha256,
        gitBlob: null,
        etag: null,
        location: { type: "local", path },
      },
    ],
  };
  return { harness, path, model };
}

async function addPartialDownload(harness: DownloadHarness, disk: ModelDisk): Promise<void> {
  const half = createRandomBytes(8 * MIB);
  const url = await harness.hub.addFile("/files/half", half);
  const model = withFile(harness.model("half", { half }), { location: { type: "url", url } });
  harness.hub.faults.add({ on: "files", type: "cut", afterBytes: 2 * MIB, times: 2 });
  const off = harness.hub.faults.add({ on: "files", type: "reset", after: 2 });
  await disk.download(model, recordProgress(), neverAborted).catch(() => undefined);
  off();
  expect(await readdir(join(harness.dir, "partial"))).toHaveLength(1);
}
