import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import {
  PartialJournal,
  type PartialJournalEntry,
  readPartialJournal,
} from "../../../../../src/controller/models/files/partial-journal.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

const entry = (end: number): PartialJournalEntry => ({
  source: "a".repeat(64),
  validator: '"tag"',
  sizeBytes: 1000,
  keys: ["key"],
  ranges: [{ start: 0, end }],
});

describe("the journal of a partial file", () => {
  let dir: string;
  let path: string;

  beforeEach(() => {
    dir = temporaryFolder("journal");
    path = join(dir, "journal");
  });

  it("returns the last entry, even after it is opened again", async () => {
    expect(await readPartialJournal(path)).toBeUndefined();
    for (const round of [1, 2, 3, 4, 5]) {
      const { journal, entry: found } = await PartialJournal.open(path);
      expect(found).toEqual(round === 1 ? undefined : entry(round - 1));
      await journal.write(entry(round));
      await journal.close();
      expect(await readPartialJournal(path)).toEqual(entry(round));
    }
  });

  it("returns the previous entry if the last write was cut off at any byte", async () => {
    const { journal } = await PartialJournal.open(path);
    await journal.write(entry(1));
    const before = await readFile(path);
    await journal.write(entry(2));
    await journal.close();
    const after = await readFile(path);
    const changed = [...after.keys()].filter((at) => before[at] !== after[at]);
    const first = changed[0] ?? 0;
    const last = changed.at(-1) ?? 0;
    for (let at = first; at <= last; at += 7) {
      await writeFile(path, Buffer.concat([after.subarray(0, at), before.subarray(at)]));
      expect(await readPartialJournal(path)).toEqual(entry(1));
    }
  });

  it("is empty if the file is not a journal", async () => {
    await writeFile(path, "not a journal");
    expect(await readPartialJournal(path)).toBeUndefined();
    const { journal, entry: found } = await PartialJournal.open(path);
    expect(found).toBeUndefined();
    await journal.write(entry(7));
    await journal.close();
    expect(await readPartialJournal(path)).toEqual(entry(7));
  });

  it("does not grow with the number of recorded ranges and keys", async () => {
    const { journal } = await PartialJournal.open(path);
    const ranges = Array.from({ length: 5000 }, (_, at) => ({
      start: at * 1e12 + 1,
      end: at * 1e12 + 2,
    }));
    const keys = Array.from({ length: 100 }, (_, at) => `${at}`.padEnd(200, "k"));
    const size = async () => (await stat(path)).size;
    const sizeBefore = await size();
    await journal.write({ ...entry(1), ranges, keys, validator: `"${"t".repeat(1024)}"` });
    await journal.close();
    expect(await size()).toBe(sizeBefore);
    const found = await readPartialJournal(path);
    expect(found?.ranges.length).toBe(200);
    expect(ranges).toEqual(expect.arrayContaining([...(found?.ranges ?? [])]));
  });
});
