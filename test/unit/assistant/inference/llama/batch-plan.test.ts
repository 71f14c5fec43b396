import { describe, expect, it } from "vitest";
import {
  type BatchCosts,
  BatchPlan,
} from "../../../../../src/assistant/inference/llama/batch-plan.ts";
import { measureBatches } from "../../../../../src/assistant/inference/llama/threads/measure-batches.ts";

function widths(costs: BatchCosts, streams: number): readonly number[] {
  const plan = new BatchPlan();
  plan.adopt(costs);
  return plan.widths(streams);
}

describe("the plan of batches for a decoding step", () => {
  it("has one batch for all streams until the costs of batches are measured", () => {
    expect(new BatchPlan().widths(5)).toEqual([5]);
  });

  it("has one batch if that costs less than one batch per token", () => {
    const costs: BatchCosts = [
      [1, 10],
      [2, 11],
      [4, 13],
      [8, 17],
    ];
    for (const streams of [1, 2, 3, 5, 8, 12]) expect(widths(costs, streams)).toEqual([streams]);
  });

  it("has the lowest total cost if small batches cost more than single tokens", () => {
    // The costs were measured for 222 million parameters in 8 bits, in milliseconds on one core.
    const costs: BatchCosts = [
      [1, 10.4],
      [2, 43],
      [4, 60],
      [8, 61],
    ];
    expect(widths(costs, 2)).toEqual([1, 1]);
    expect(widths(costs, 4)).toEqual([1, 1, 1, 1]);
    expect(widths(costs, 8)).toEqual([8]);
    expect(widths(costs, 9)).toEqual([9]);
  });

  it("uses the measured costs for each number of streams; they count as steady if two rounds of measurement agree", async () => {
    const { signal } = new AbortController();
    const even = await measureBatches({ sequences: 6, measure: async (width) => width, signal });
    expect(even).toEqual({
      costs: [
        [1, 1],
        [2, 2],
        [4, 4],
      ],
      steady: true,
    });
    let call = 0;
    const measure = async () => ++call;
    expect((await measureBatches({ sequences: 2, measure, signal })).steady).toBe(false);
  });
});
