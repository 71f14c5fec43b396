import { describe, expect, it } from "vitest";
import { lsaDefaults, trainLsa } from "../../../../src/assistant/context/index/lsa/lsa-model.ts";
import { symmetricEigen } from "../../../../src/assistant/context/index/lsa/symmetric-eigen.ts";
import { truncatedSvd } from "../../../../src/assistant/context/index/lsa/truncated-svd.ts";
import { Dice } from "../../../support/random.ts";

function finish<T>(steps: Generator<void, T>): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/** A sparse matrix, and the same one as rows of numbers. */
function randomMatrix(dice: Dice, rows: number, columns: number) {
  const full = Array.from({ length: rows }, () =>
    Array.from({ length: columns }, () => (dice.chance(0.2) ? dice.random() : 0)),
  );
  const starts = [0];
  const [columnOf, values]: [number[], number[]] = [[], []];
  for (const row of full) {
    for (const [column, value] of row.entries())
      if (value !== 0) {
        columnOf.push(column);
        values.push(value);
      }
    starts.push(values.length);
  }
  const sparse = {
    rows,
    columns,
    starts: Uint32Array.from(starts),
    columnOf: Uint32Array.from(columnOf),
    values: Float32Array.from(values),
  };
  return { full, sparse };
}

describe("truncatedSvd", () => {
  it("finds the singular values and vectors that the whole matrix has", () => {
    const { full, sparse } = randomMatrix(new Dice(3), 60, 40);
    const gram = new Float64Array(1_600);
    for (const row of full)
      for (let i = 0; i < 40; i += 1)
        for (let j = 0; j < 40; j += 1)
          gram[i * 40 + j] = (gram[i * 40 + j] ?? 0) + (row[i] ?? 0) * (row[j] ?? 0);
    const exact = finish(symmetricEigen(gram, 40));
    const found = finish(truncatedSvd(sparse, { dimensions: 6, iterations: 20, seed: 1 }));
    expect(found.dimensions).toBe(6);
    for (let k = 0; k < 6; k += 1) {
      expect(found.singularValues[k]).toBeCloseTo(Math.sqrt(exact.values[k] ?? 0), 3);
      let product = 0;
      for (let i = 0; i < 40; i += 1)
        product += (found.vectors[i * 6 + k] ?? 0) * (exact.vectors[i * 40 + k] ?? 0);
      expect(Math.abs(product)).toBeCloseTo(1, 2);
    }
  });

  it("gives no more dimensions than there are", () => {
    const starts = Uint32Array.from([0, 1, 2]);
    const columnOf = Uint32Array.from([0, 0]);
    const matrix = { rows: 2, columns: 3, starts, columnOf, values: Float32Array.from([1, 2]) };
    const found = finish(truncatedSvd(matrix, { dimensions: 5, iterations: 2, seed: 1 }));
    expect(found.dimensions).toBe(1);
    expect(found.singularValues[0]).toBeCloseTo(Math.sqrt(5), 4);
    const empty = { ...matrix, rows: 0, columns: 0, starts: Uint32Array.from([0]) };
    expect(finish(truncatedSvd(empty, { dimensions: 5, iterations: 2, seed: 1 })).dimensions).toBe(
      0,
    );
  });
});

describe("trainLsa", () => {
  const topics = [
    ["boat", "ship", "harbour", "sail", "anchor"],
    ["bread", "flour", "oven", "yeast", "dough"],
    ["guitar", "chord", "string", "melody", "song"],
  ];
  const dice = new Dice(11);
  const texts = Array.from({ length: 240 }, (_, at) => {
    const topic = topics[at % 3] ?? [];
    return [
      dice.pick(topic),
      dice.pick(topic),
      dice.pick(topic),
      `filler${dice.between(1, 9)}`,
    ].join(" ");
  });
  const options = { ...lsaDefaults, dimensions: 3 };

  it("brings words near that occur in the same texts", () => {
    const model = finish(trainLsa(() => texts, options));
    const cosine = (a: string, b: string) => {
      const [v, w] = [model.embed(a), model.embed(b)];
      return Array.from(v ?? []).reduce((sum, value, at) => sum + value * (w?.[at] ?? 0), 0);
    };
    expect(cosine("boat", "anchor sail")).toBeGreaterThan(0.9);
    expect(cosine("boat", "flour")).toBeLessThan(0.3);
    expect(cosine("BOATS", "boat")).toBeCloseTo(1, 5);
    expect(model.embed("unheard words")).toBeUndefined();
    expect(model.embed("")).toBeUndefined();
  });

  it("learns the same from the same", () => {
    const [a, b] = [finish(trainLsa(() => texts, options)), finish(trainLsa(() => texts, options))];
    expect(a.vectors).toEqual(b.vectors);
    expect([...a.vocabulary.places]).toEqual([...b.vocabulary.places]);
  });

  it("learns nothing from nothing", () => {
    expect(finish(trainLsa(() => [], options)).embed("boat")).toBeUndefined();
    expect(finish(trainLsa(() => ["one text"], options)).dimensions).toBe(0);
  });
});
