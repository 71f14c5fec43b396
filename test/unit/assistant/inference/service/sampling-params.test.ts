import fc from "fast-check";
import { expect, test } from "vitest";
import { completeSampling } from "../../../../../src/assistant/inference/service/sampling-params.ts";

const first = {
  choice: 0,
  attempt: 0,
  grammar: undefined,
  showControlTokens: false,
  random: () => 0.5,
};

test("the client's sampling values take precedence over the defaults, even if the client's values are zero", () => {
  expect(completeSampling({ temperature: 0, topK: 0, seed: 0 }, first)).toMatchObject({
    temperature: 0,
    topK: 0,
    topP: 0.95,
    seed: 0,
    logprobs: undefined,
  });
});

test("choices and attempts get different seeds, which are reproducible", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), (seed) => {
      const seeds = [0, 1].flatMap((attempt) =>
        [0, 1, 2, 3].map(
          (choice) => completeSampling({ seed }, { ...first, choice, attempt }).seed,
        ),
      );
      expect(new Set(seeds).size).toBe(8);
      expect(seeds.every((one) => Number.isInteger(one) && one >= 0 && one < 2 ** 32)).toBe(true);
      expect(completeSampling({ seed }, { ...first, choice: 1, attempt: 1 }).seed).toBe(seeds[5]);
    }),
  );
});

test("each request without a seed gets a different seed", () => {
  expect(completeSampling({}, { ...first, random: () => 0.1 }).seed).not.toBe(
    completeSampling({}, { ...first, random: () => 0.9 }).seed,
  );
});
