import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CalibrationCache } from "../../../../../src/assistant/inference/llama/threads/calibration-cache.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

let folder: string;

beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), "berth-threads-")), "cache");
});
afterEach(() => rm(join(folder, ".."), { recursive: true, force: true }));

const clock = new VirtualClock();
const calibration = {
  decodeThreads: 2,
  prefillThreads: 4,
  decodeMs: 3.5,
  batchCosts: [
    [1, 3.5],
    [2, 9],
  ] as const,
};

describe("the stored measurements of a model", () => {
  it("are kept for only an hour in this process if the machine was busy", async () => {
    const cache = new CalibrationCache({ folder, cores: 4, clock });
    cache.keepTemporarily("one", calibration);
    expect(await cache.read("one")).toEqual(calibration);
    expect(await new CalibrationCache({ folder, cores: 4, clock }).read("one")).toBeUndefined();
    await clock.advance(60 * 60_000);
    expect(await cache.read("one")).toBeUndefined();
    cache.keepTemporarily("one", calibration);
    const better = { ...calibration, decodeThreads: 3 };
    await cache.write("one", better);
    expect(await cache.read("one")).toEqual(better);
  });

  it("are available at the next load of the same model with the same number of cores", async () => {
    const cache = new CalibrationCache({ folder, cores: 4, clock });
    expect(await cache.read("one")).toBeUndefined();
    await cache.write("one", calibration);
    expect(await new CalibrationCache({ folder, cores: 4, clock }).read("one")).toEqual(
      calibration,
    );
    expect(await cache.read("two")).toBeUndefined();
    expect(await new CalibrationCache({ folder, cores: 2, clock }).read("one")).toBeUndefined();
  });

  it.each(["", "{", "[]", '{"decodeThreads":0,"prefillThreads":1,"decodeMs":1}'])(
    "are replaced by new ones if the file is damaged: %s",
    async (text) => {
      const cache = new CalibrationCache({ folder, cores: 4, clock });
      await cache.write("one", calibration);
      const [name = ""] = await readdir(folder);
      await writeFile(join(folder, name), text);
      expect(await cache.read("one")).toBeUndefined();
    },
  );
});
