import { expect, test } from "vitest";
import { computeCoverage } from "../../../../src/assistant/context/index/search/query-coverage.ts";
import { normalizeWord } from "../../../../src/base/tokenize.ts";

function weights(words: Readonly<Record<string, number>>): ReadonlyMap<string, number> {
  return new Map(Object.entries(words).map(([word, weight]) => [normalizeWord(word), weight]));
}

const boiler = weights({ boiler: 4, serviced: 4, year: 2 });

test.each([
  ["The boiler was serviced this year.", 1],
  ["Servicing boilers", 0.8],
  ["A new boiler", 0.4],
  ["year after year", 0.2],
  ["Tomatoes want water", 0],
  ["", 0],
])(
  "a text covers a query by the weights of the query's words that it contains, each counted once and in any form: %j",
  (text, expected) => {
    expect(computeCoverage(boiler, text)).toBeCloseTo(expected);
  },
);

test("a text must contain only the three words of a long query with the greatest weights to cover it", () => {
  const long = weights({ boiler: 4, valve: 4, kitchen: 4, sink: 3, water: 1, warm: 1, pump: 1 });
  expect(computeCoverage(long, "the valve of the boiler in the kitchen")).toBe(1);
  expect(computeCoverage(long, "boiler valve kitchen sink water")).toBe(1);
  expect(computeCoverage(long, "a warm pump")).toBeCloseTo(2 / 12);
});

test("parts of identifiers and pairs of characters count as words", () => {
  expect(computeCoverage(weights({ header: 1 }), "parseHttpHeader()")).toBe(1);
  expect(computeCoverage(new Map([["東京", 1]]), "昨日東京に行った")).toBe(1);
});

test("a query without words, or whose words have no weight, is covered by no text", () => {
  expect(computeCoverage(new Map(), "anything")).toBe(0);
  expect(computeCoverage(weights({ anything: 0 }), "anything")).toBe(0);
});
