import { describe, expect, test } from "vitest";
import type { DownloadProgress, ModelFiles } from "../../../src/controller/models/files/port.ts";
import type { ResolvedModel } from "../../../src/controller/models/hub/port.ts";

/** Models on disk and where they come from, as the contract needs to meddle with them. */
export interface FilesHarness extends AsyncDisposable {
  readonly files: ModelFiles;
  /** One that can be downloaded; another name is another content. */
  model(name: string): Promise<ResolvedModel>;
  /** The next download is cut off before its end. */
  cutNext(): void;
  /** The next download brings something else. */
  lieNext(): void;
  /** Changes what is on the disk. */
  damage(model: ResolvedModel): Promise<void>;
  /** Runs what waits for time. */
  readonly settle: <T>(work: Promise<T>) => Promise<T>;
}

const never = new AbortController().signal;

const download = (
  { files, settle }: FilesHarness,
  model: ResolvedModel,
  onProgress: (progress: DownloadProgress) => void = () => {},
) => settle(files.download(model, { token: undefined, onProgress }, never));

/** What every `ModelFiles` keeps to. */
export function filesContract(name: string, open: () => Promise<FilesHarness>): void {
  describe(`model files: ${name}`, () => {
    test("what was never fetched is not there", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      expect(await harness.files.find(model)).toBeUndefined();
      expect(await harness.files.storedBytes(model)).toBe(0);
    });

    test("a download ends with what is found from then on", async () => {
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

    test("one that is there is not fetched again", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      const stored = await download(harness, model);
      harness.cutNext();
      expect(await download(harness, model)).toEqual(stored);
    });

    test("a cut is told, and what had come stays for the next try", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      harness.cutNext();
      await expect(download(harness, model)).rejects.toMatchObject({ code: "hub_unreachable" });
      expect(await harness.files.find(model)).toBeUndefined();
      await download(harness, model);
      expect(await harness.files.find(model)).toBeDefined();
    });

    test("something else than was promised is told, and is not there", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      harness.lieNext();
      await expect(download(harness, model)).rejects.toMatchObject({ code: "digest_mismatch" });
      expect(await harness.files.find(model)).toBeUndefined();
      await download(harness, model);
    });

    test("damage on the disk is found, and the next download puts it right", async () => {
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

    test("whoever leaves ends it, with the signal's reason", async () => {
      await using harness = await open();
      const model = await harness.model("one");
      const leaving = new AbortController();
      leaving.abort();
      const options = { token: undefined, onProgress: () => {} };
      await expect(
        harness.settle(harness.files.download(model, options, leaving.signal)),
      ).rejects.toMatchObject({ name: "AbortError" });
    });

    test("a removal takes one, and leaves the others", async () => {
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
