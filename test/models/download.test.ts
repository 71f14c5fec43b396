import { createHash } from "node:crypto";
import { lstat, mkdir, readdir, readlink, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { assertGgufFile } from "../../src/controller/models/gguf-file.ts";
import {
  createRandomBytes,
  DownloadHarness,
  hashSha256,
  MIB,
  neverAborted,
  readStored,
  recordProgress,
} from "./download-harness.ts";

describe("ModelDisk.download", () => {
  it("stores a model's files under their own names, downloaded in parts", async () => {
    const contents = {
      "model-1-of-2.gguf": createRandomBytes(20 * MIB + 17),
      "sub/model-2-of-2.gguf": createRandomBytes(5),
    };
    await using harness = await DownloadHarness.open(contents);
    const disk = harness.disk();
    const model = harness.model("key", contents);
    expect(await disk.find(model)).toBeUndefined();
    const watched = recordProgress(harness.hub.token);

    const stored = await disk.download(model, watched, neverAborted);

    expect(stored.path).toBe(join(harness.dir, "views/key/model-1-of-2.gguf"));
    expect(stored.files).toEqual(
      Object.entries(contents).map(([name, bytes]) => ({
        name,
        sizeBytes: bytes.length,
        sha256: hashSha256(bytes),
      })),
    );
    for (const [name, bytes] of Object.entries(contents)) {
      const path = join(harness.dir, "views/key", name);
      expect((await readStored(path)).equals(bytes)).toBe(true);
      expect(await readlink(path)).toMatch(/^(\.\.\/)+blobs\/[0-9a-f]{64}$/);
    }
    expect(await disk.find(model)).toEqual(stored);
    expect(await disk.storedBytes(model)).toBe(20 * MIB + 22);
    expect(harness.transfers.filter(({ headers }) => headers.range).length).toBeGreaterThan(4);
    // If a part of the file arrives slowly, as on a busy machine, Berth divides it between two connections. The bytes
    // that are still in the first connection's socket buffers are then sent a second time.
    expect(harness.hub.bytesSent).toBeLessThan(23 * MIB);
    expect(harness.hub.leaks).toEqual([]);
    expect(harness.hub.at("hub").every(({ headers }) => headers.authorization)).toBe(true);
    expect(
      harness.hub.requests.every(({ headers }) => headers["user-agent"] === "berth/1.2.3"),
    ).toBe(true);
    expect(watched.told.at(-1)).toMatchObject({
      doneBytes: 20 * MIB + 22,
      totalBytes: 20 * MIB + 22,
    });
    expect(await readdir(join(harness.dir, "partial"))).toEqual([]);
  });

  it.each([
    ["with", true],
    ["without", false],
  ])(
    "refuses a file that is not a model, at each attempt (%s an expected digest)",
    async (_, isKnown) => {
      const contents = { "m.gguf": Buffer.from("<html>Not found</html>") };
      await using harness = await DownloadHarness.open(contents);
      const disk = harness.disk({ assertUsable: assertGgufFile });
      const model = harness.model("key", contents);
      const wanted = isKnown
        ? model
        : { ...model, files: model.files.map((file) => ({ ...file, sha256: null })) };
      for (let attempt = 0; attempt < 2; attempt += 1) {
        await expect(
          disk.download(wanted, recordProgress(harness.hub.token), neverAborted),
        ).rejects.toMatchObject({ code: "model_unusable", message: "m.gguf is not a GGUF file" });
        expect(await disk.find(wanted)).toBeUndefined();
      }
    },
  );

  it("creates files that only Berth's user can access", async () => {
    const contents = { "m.gguf": createRandomBytes(10) };
    await using harness = await DownloadHarness.open(contents);
    await harness.disk().download(harness.model("key", contents), recordProgress(), neverAborted);
    const entries = await readdir(harness.dir, { recursive: true });
    expect(entries.length).toBeGreaterThan(5);
    for (const entry of entries) {
      const found = await lstat(join(harness.dir, entry));
      if (found.isSymbolicLink()) continue;
      expect([entry, found.mode & 0o777]).toEqual([entry, found.isDirectory() ? 0o700 : 0o600]);
    }
    expect((await stat(harness.dir)).mode & 0o777).toBe(0o700);
  });
});

describe("a partial file", () => {
  const name = "m.gguf";
  const SLOT_BYTES = 16 * 2 ** 10;

  /** Writes a partial file as version 0.1 left it: the data, and a journal with two slots. */
  async function writePartial(
    harness: DownloadHarness,
    bytes: Buffer,
    { lengthBytes, journal }: { lengthBytes: number; journal?: Buffer },
  ): Promise<void> {
    const dir = join(harness.dir, "partial", `sha256-${hashSha256(bytes)}`);
    const body = JSON.stringify({
      sequence: 3,
      source: createHash("sha256").update(harness.buildUrl(name)).digest("hex"),
      validator: null,
      sizeBytes: lengthBytes,
      keys: ["key"],
      ranges: [
        [0, 5 * MIB],
        [8 * MIB, 9 * MIB],
      ],
    });
    const slots = Buffer.alloc(2 * SLOT_BYTES, " ");
    slots.write(`${createHash("sha256").update(body).digest("hex")}\n${body}\n`, SLOT_BYTES);
    const data = Buffer.alloc(9 * MIB);
    bytes.copy(data, 0, 0, 5 * MIB);
    bytes.copy(data, 8 * MIB, 8 * MIB, 9 * MIB);
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, "data"), data);
    await writeFile(join(dir, "journal"), journal ?? slots);
  }

  it.each([
    ["is resumed", {}, 6 * MIB],
    ["is discarded when its journal cannot be read", { journal: Buffer.from("{}") }, 0],
    ["is discarded when it belongs to a file of another size", { lengthBytes: 11 * MIB }, 0],
  ])("of Berth 0.1 %s", async (_, changed, keptBytes) => {
    const bytes = createRandomBytes(12 * MIB);
    await using harness = await DownloadHarness.open({ [name]: bytes });
    await writePartial(harness, bytes, { lengthBytes: bytes.length, ...changed });
    const { path } = await harness
      .disk()
      .download(harness.model("key", { [name]: bytes }), recordProgress(), neverAborted);
    expect((await readStored(path)).equals(bytes)).toBe(true);
    expect(harness.hub.bytesSent).toBe(bytes.length - keptBytes);
    expect(await readdir(join(harness.dir, "partial"))).toEqual([]);
  });
});
