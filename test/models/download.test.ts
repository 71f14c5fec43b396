import { lstat, readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  createRandomBytes,
  DownloadHarness,
  hashSha256,
  MIB,
  neverAborted,
  readStored,
  recordProgress,
} from "./download-harness.ts";

describe("a download", () => {
  it("brings a model's files onto the disk, in parts, under their own names", async () => {
    const contents = {
      "model-1-of-2.gguf": createRandomBytes(20 * MIB + 17),
      "sub/model-2-of-2.gguf": createRandomBytes(5),
    };
    await using world = await DownloadHarness.open(contents);
    const disk = world.disk();
    const model = world.model("key", contents);
    expect(await disk.find(model)).toBeUndefined();
    const watched = recordProgress(world.hub.token);

    const stored = await disk.download(model, watched, neverAborted);

    expect(stored.path).toBe(join(world.dir, "views/key/model-1-of-2.gguf"));
    expect(stored.files).toEqual(
      Object.entries(contents).map(([name, bytes]) => ({
        name,
        sizeBytes: bytes.length,
        sha256: hashSha256(bytes),
      })),
    );
    for (const [name, bytes] of Object.entries(contents)) {
      const path = join(world.dir, "views/key", name);
      expect((await readStored(path)).equals(bytes)).toBe(true);
      expect(await readlink(path)).toMatch(/^(\.\.\/)+blobs\/[0-9a-f]{64}$/);
    }
    expect(await disk.find(model)).toEqual(stored);
    expect(await disk.storedBytes(model)).toBe(20 * MIB + 22);
    expect(world.transfers.filter(({ headers }) => headers.range).length).toBeGreaterThan(4);
    // On a busy machine slow parts are divided, and what was on its way in the socket then is sent twice.
    expect(world.hub.bytesSent).toBeLessThan(23 * MIB);
    expect(world.hub.leaks).toEqual([]);
    expect(world.hub.at("hub").every(({ headers }) => headers.authorization)).toBe(true);
    expect(world.hub.requests.every(({ headers }) => headers["user-agent"] === "berth/1.2.3")).toBe(
      true,
    );
    expect(watched.told.at(-1)).toMatchObject({
      doneBytes: 20 * MIB + 22,
      totalBytes: 20 * MIB + 22,
    });
    expect(await readdir(join(world.dir, "partial"))).toEqual([]);
  });

  it("is for Berth's user alone", async () => {
    const contents = { "m.gguf": createRandomBytes(10) };
    await using world = await DownloadHarness.open(contents);
    await world.disk().download(world.model("key", contents), recordProgress(), neverAborted);
    const entries = await readdir(world.dir, { recursive: true });
    expect(entries.length).toBeGreaterThan(5);
    for (const entry of entries) {
      const found = await lstat(join(world.dir, entry));
      if (found.isSymbolicLink()) continue;
      expect([entry, found.mode & 0o777]).toEqual([entry, found.isDirectory() ? 0o700 : 0o600]);
    }
    expect((await stat(world.dir)).mode & 0o777).toBe(0o700);
  });
});
