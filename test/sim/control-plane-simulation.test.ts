import { describe, expect, test } from "vitest";
import { simulate } from "./simulation.ts";

/**
 * The environment variable BERTH_SIM_SEED replays one seed; BERTH_SIM_RUNS runs more seeds, from BERTH_SIM_FROM on.
 * Without them, the seeds 1 to 16 run.
 */
const environment = process.env;
const from = Number(environment["BERTH_SIM_FROM"] ?? "1");
const runs = Number(environment["BERTH_SIM_RUNS"] ?? "16");
const single = environment["BERTH_SIM_SEED"];
const GROUPS = 8;

const size = Math.ceil(runs / GROUPS);
const groups =
  single === undefined
    ? Array.from({ length: GROUPS }, (_, group) => ({ first: from + group * size, size }))
    : [{ first: Number(single), size: 1 }];

describe("the control plane under faults", () => {
  test.each(groups)(
    "converges to the specs in the store ($size seeds from $first on)",
    async ({ first, size: count }) => {
      const failures: string[] = [];
      for (let seed = first; seed < first + count; seed += 1) {
        const { problems } = await simulate(seed);
        for (const problem of problems) failures.push(`BERTH_SIM_SEED=${seed}: ${problem}`);
      }
      expect(failures).toEqual([]);
    },
  );

  test("is killed more than three times in the runs of the first three seeds", async () => {
    const verdicts = await Promise.all([1, 2, 3].map((seed) => simulate(seed)));
    expect(verdicts.reduce((sum, verdict) => sum + verdict.kills, 0)).toBeGreaterThan(3);
  });
});
