import { describe, expect, test } from "vitest";
import type { DownloadProgress, ModelFiles } from "../../../src/controller/models/files/port.ts";
import type { ResolvedModel } from "../../../src/controller/models/hub/port.ts";

/** The environment of the contract: models on the disk, and a hub in which the test causes faults. */
export interface FilesHarness extends AsyncDisposable {
  readonly files: ModelFiles;
  /** Returns a model that can be downloaded. Models with different names have different contents. */
  model(name: string): Promise<ResolvedModel>;
  /** Cuts the connection in the middle of the next download. */
  cutNext(): void;
  /** Makes the next download return different content. */
  lieNext(): void;
  /** Damages the model's file on the disk. */
  damage(model: ResolvedModel): Promise<void>;
  /** Advances the adapter's virtual time until `work` is settled, and returns its result. */
  readonly settle: <T>(work: Promise<T>) => Promise<T>;
}

const never = new AbortController().signal;

const download = (
  { files, settle }: FilesHarness,
  model: ResolvedModel,
  onProgress: (progress: DownloadProgress) => void = () => {},
) => settle(files.download(model, { token: undefined, onProgress }, never));

/** Checks the contract of `ModelFiles`, for every adapter. */
export function filesContract(name: string, open: () => Promise<FilesHarness>): void {
  describe(`model files: ${name}`, () => {
    test("a model that was never downloaded is not found", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      expect(await harness.files.find(model)).toBeUndefined();
      expect(await harness.files.storedBytes(model)).toBe(0);
    });

    test("a download returns the same result as later calls of find", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      const seen: DownloadProgress[] = [];
      const stored = await download(harness, model, (progress) => seen.push(progress));
      const [file] = model.files;
      expect(stored.files).toEqual([
        { name: file?.name, sizeBytes: file?.sizeBytes, sha256: file?.sha256 },
      ]);
      expect(await harness.files.find(model)).toEqual(stored);
      expect(await harness.files.storedBytes(model)).toBe(file?.sizeBytes);
      expect(seen.at(-1)?.doneBytes).toBe(file?.sizeBytes);
      expect(seen.map(({ doneBytes }) => doneBytes)).toEqual(
        seen.map(({ doneBytes }) => doneBytes).toSorted((one, other) => one - other),
      );
    });

    test("a stored model is not downloaded again", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      const stored = await download(harness, model);
      harness.cutNext();
      expect(await download(harness, model)).toEqual(stored);
    });

    test("a cut connection is an error, and the next attempt succeeds", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      harness.cutNext();
      await expect(download(harness, model)).rejects.toMatchObject({ code: "hub_unreachable" });
      expect(await harness.files.find(model)).toBeUndefined();
      await download(harness, model);
      expect(await harness.files.find(model)).toBeDefined();
    });

    test("a wrong digest is an error, and the downloaded file is not stored", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      harness.lieNext();
      await expect(download(harness, model)).rejects.toMatchObject({ code: "digest_mismatch" });
      expect(await harness.files.find(model)).toBeUndefined();
      await download(harness, model);
    });

    test("damage on the disk is detected, and repaired by the next download", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      const { files, settle } = harness;
      await download(harness, model);
      expect(await settle(files.verify(model, never))).toEqual(await files.find(model));
      await harness.damage(model);
      await expect(settle(files.verify(model, never))).rejects.toMatchObject({
        code: "digest_mismatch",
      });
      expect(await files.find(model)).toBeUndefined();
      await download(harness, model);
      expect(await files.find(model)).toBeDefined();
    });

    test("an aborted signal makes calls reject with its reason", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      const leaving = new AbortController();
      leaving.abort();
      const options = { token: undefined, onProgress: () => {} };
      await expect(
        harness.settle(harness.files.download(model, options, leaving.signal)),
      ).rejects.toMatchObject({ name: "AbortError" });
    });

    test("a removal removes one model, and keeps the other models", async () => {
      await using harness = await open();
      const [one, other] = [await harness.model("one"), await harness.model("other")];
      await download(harness, one);
      await download(harness, other);
      await harness.files.remove(one.key, [one.key, other.key]);
      expect(await harness.files.find(one)).toBeDefined();
      await harness.files.remove(one.key, [other.key]);
      expect(await harness.files.find(one)).toBeUndefined();
      expect(await harness.files.storedBytes(one)).toBe(0);
      expect(await harness.files.find(other)).toBeDefined();
      await harness.files.collect([other.key]);
      expect(await harness.files.find(other)).toBeDefined();
    });
  });
}
