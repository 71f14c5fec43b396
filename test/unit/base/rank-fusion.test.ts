import { expect, it } from "vitest";
import { fuseRankings } from "../../../src/base/rank-fusion.ts";

const ranking = (weight: number, ...ids: number[]) => ({
  items: ids.map((id) => ({ id, score: 0 })),
  weight,
});

it("rank fusion adds the weighted reciprocal ranks of an item", () => {
  const fused = fuseRankings([ranking(1, 1, 2), ranking(0.5, 2, 3)], 10);
  expect(fused).toEqual([
    { id: 2, ranks: [2, 1], score: 1 / 12 + 0.5 / 11 },
    { id: 1, ranks: [1, null], score: 1 / 11 },
    { id: 3, ranks: [null, 2], score: 0.5 / 12 },
  ]);
});

it("rank fusion keeps the order of one ranking if the others are empty", () => {
  expect(fuseRankings([ranking(1, 5, 4, 3), ranking(1)], 60).map(({ id }) => id)).toEqual([
    5, 4, 3,
  ]);
  expect(fuseRankings([ranking(1), ranking(1)], 60)).toEqual([]);
});

it("rank fusion orders items with equal scores by id", () => {
  expect(fuseRankings([ranking(1, 7), ranking(1, 3)], 60).map(({ id }) => id)).toEqual([3, 7]);
});
