import { describe, expect, it } from "vitest";
import {
  packVector,
  unpackVector,
  VectorIndex,
} from "../../../../src/assistant/context/index/search/vector-index.ts";
import { Dice } from "../../../support/random.ts";

function unitVector(dice: Dice, dimensions: number): Float32Array {
  const vector = Float32Array.from({ length: dimensions }, () => dice.random() - 0.5);
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

describe("VectorIndex", () => {
  it("returns the nearest vectors of visible sources, also after changes", () => {
    const dice = new Dice(7);
    const index = new VectorIndex(10);
    const kept = new Map<number, { source: number; vector: Float32Array }>();
    for (let round = 0; round < 9_000; round += 1) {
      const id = dice.between(1, 5_000);
      if (dice.chance(0.2)) {
        index.delete(id);
        kept.delete(id);
      } else {
        const [source, packed] = [id % 3, packVector(unitVector(dice, 10))];
        index.set(id, source, packed);
        kept.set(id, { source, vector: unpackVector(packed) });
      }
    }
    expect(index.size).toBe(kept.size);
    for (const sources of [undefined, [1], [0, 2], []]) {
      const query = unitVector(dice, 10);
      const expected = Array.from(kept, ([id, { source, vector }]) => ({
        id,
        source,
        score: vector.reduce((sum, value, at) => sum + value * (query[at] ?? 0), 0),
      }))
        .filter(({ source, score }) => score > 0 && (sources?.includes(source) ?? true))
        .toSorted((a, b) => b.score - a.score);
      const found = index.nearest(query, sources, 20);
      expect(found.map(({ id }) => id)).toEqual(expected.slice(0, 20).map(({ id }) => id));
    }
  });

  it("stores a vector in packed form with an error below 0.01", () => {
    const vector = unitVector(new Dice(1), 64);
    for (const [at, value] of unpackVector(packVector(vector)).entries())
      expect(Math.abs(value - (vector[at] ?? 0))).toBeLessThan(0.01);
    expect(packVector(new Float32Array(3)).value).toEqual(new Int8Array(3));
  });
});
