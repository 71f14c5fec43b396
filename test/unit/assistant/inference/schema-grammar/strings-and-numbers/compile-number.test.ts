import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { scalarGrammar } from "../../../../../../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { isMultipleOf } from "../../../../../../src/assistant/inference/schema-grammar/strings-and-numbers/decimal.ts";
import { numberLanguage } from "../../../../../support/scalar-language.ts";

interface Bounds {
  readonly integer: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
}

/** Returns a reference validator: Ajv checks the type and the bounds, and decimal arithmetic checks `multipleOf`. */
function judge({ integer, ...keywords }: Bounds): (value: unknown) => boolean {
  const ajv = new Ajv2020({ strict: false });
  ajv.removeKeyword("multipleOf").addKeyword({
    keyword: "multipleOf",
    validate: (step: number, value: number) => isMultipleOf(value, step),
  });
  const validate = ajv.compile({ type: integer ? "integer" : "number", ...keywords });
  return (value) => validate(value);
}

/** Numbers with few digits, so that bounds and numbers often coincide. */
const small = fc
  .tuple(fc.integer({ min: -2_000, max: 2_000 }), fc.constantFrom(0, 0, 1, 2, 3))
  .map(([digits, places]) => Number(`${digits}e-${places}`));
const large = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e25, max: 1e25 }),
  fc.maxSafeInteger(),
);
const number = fc.oneof({ weight: 4, arbitrary: small }, { weight: 1, arbitrary: large });
const optional = <Value>(value: fc.Arbitrary<Value>) =>
  fc.option(value, { nil: undefined, freq: 1 });

const bounds: fc.Arbitrary<Bounds> = fc
  .record({
    integer: fc.boolean(),
    minimum: optional(number),
    maximum: optional(number),
    exclusiveMinimum: optional(number),
    exclusiveMaximum: optional(number),
    multipleOf: optional(fc.constantFrom(1, 2, 3, 5, 7, 10, 12, 100, 0.1, 0.01, 0.25, 1.5, 0.003)),
  })
  .map((all) => {
    const kept = Object.entries(all).filter(([, value]) => value !== undefined);
    return { integer: all.integer, ...Object.fromEntries(kept) };
  });

describe("the grammar for numbers with any bounds", () => {
  test("generates only numbers within the bounds, and refuses numbers outside of them", () => {
    let produced = 0;
    const check = (all: Bounds, values: number[], seed: number) => {
      const isValid = judge(all);
      const language = refusedOr(() => numberLanguage(all));
      if (language === "refused") return;
      if (language === undefined) {
        expect(values.filter((value) => isValid(value))).toEqual([]);
        return;
      }
      for (const text of language.samples(12, seed)) {
        produced += 1;
        const label = `${text} for ${JSON.stringify(all)}`;
        expect(`${label}: ${isValid(JSON.parse(text))}`).toBe(`${label}: true`);
        expect(scalarGrammar.allowsNumber({ ...all, pointer: "#" }, JSON.parse(text))).toBe(true);
        expect(text).not.toMatch(/^-?0[0-9]/);
      }
      for (const value of values) {
        const label = `${value} for ${JSON.stringify(all)}`;
        if (language.accepts(JSON.stringify(value)))
          expect(`${label}: ${isValid(value)}`).toBe(`${label}: true`);
      }
    };
    const values = fc.array(number, { minLength: 10, maxLength: 10 });
    fc.assert(fc.property(bounds, values, fc.nat(), check), { numRuns: 100 });
    expect(produced).toBeGreaterThan(200);
  }, 60_000);

  test("accepts valid numbers with few digits as JavaScript prints them", () => {
    let accepted = 0;
    const check = (all: Bounds, values: number[]) => {
      const isValid = judge(all);
      const language = refusedOr(() => numberLanguage(all));
      if (language === "refused") return;
      for (const value of values.filter((one) => isValid(one))) {
        accepted += 1;
        const label = `${value} for ${JSON.stringify(all)}`;
        expect(`${label}: ${language?.accepts(String(value))}`).toBe(`${label}: true`);
      }
    };
    // The numbers next to the bounds are tried, because mistakes are likely there.
    const near = bounds.chain((all) => {
      const ends = [all.minimum, all.maximum, all.exclusiveMinimum, all.exclusiveMaximum];
      const set = ends.filter((end) => end !== undefined && Math.abs(end) < 1e4);
      const around = set.flatMap((end) =>
        [0, 1, -1, 0.1, -0.1, 0.001, 0.5, 2].map((more) => Number(((end ?? 0) + more).toFixed(6))),
      );
      const one = around.length > 0 ? fc.oneof(small, fc.constantFrom(...around)) : small;
      return fc.tuple(fc.constant(all), fc.array(one, { minLength: 40, maxLength: 40 }));
    });
    fc.assert(
      fc.property(near, ([all, values]) => check(all, values)),
      { numRuns: 100 },
    );
    expect(accepted).toBeGreaterThan(200);
  }, 60_000);
});

describe("the constraints of a number", () => {
  test.each([
    [
      { integer: true },
      ["0", "-1", "42", "999999999999999999"],
      ["1.0", "01", "1e3", "+1", "-", ""],
    ],
    [
      {},
      ["0", "-0.5", "3.14", "1e-7", "1.5e+21", "6.02E23"],
      ["01", ".5", "1.", "1e", "1e400", "NaN"],
    ],
    [
      { integer: true, minimum: 1, maximum: 100 },
      ["1", "9", "10", "100"],
      ["0", "101", "-1", "00"],
    ],
    [{ integer: true, minimum: -17, maximum: 5 }, ["-17", "-9", "0", "5"], ["-18", "6", "-20"]],
    [{ minimum: 0, exclusiveMaximum: 1 }, ["0", "0.5", "0.99999"], ["1", "1.0", "-0.1"]],
    [{ exclusiveMinimum: 0 }, ["0.00001", "1", "5e-9"], ["0", "0.0", "-1"]],
    [{ minimum: -180, maximum: 180 }, ["-180.0", "179.999999", "180"], ["180.01", "-180.5"]],
    [{ multipleOf: 0.01 }, ["0.07", "0.29", "-1.1", "100"], ["0.001", "0.075"]],
    [{ multipleOf: 2.5 }, ["2.5", "5", "5.0", "-7.5"], ["2", "1.5", "2.55"]],
    [{ integer: true, multipleOf: 1_000_000 }, ["0", "3000000"], ["300000", "3000001"]],
    [{ integer: true, multipleOf: 97 }, ["97", "-194", "9700"], ["98", "9701"]],
    [
      { integer: true, multipleOf: 10_007, minimum: 1, maximum: 100_000 },
      ["10007"],
      ["0", "10008"],
    ],
    [{ integer: true, exclusiveMinimum: 0.5, exclusiveMaximum: 2.5 }, ["1", "2"], ["0", "3"]],
    [{ integer: true, exclusiveMinimum: -2.5, exclusiveMaximum: 0 }, ["-2", "-1"], ["-3", "0"]],
    [{ integer: true, multipleOf: 0.5 }, ["3", "-1"], ["0.5"]],
    [{ integer: true, maximum: 2 ** 63 }, ["9223372036854775807", "-5"], ["9223372036854775809"]],
    [{ integer: true, minimum: 1e20 }, ["100000000000000000000"], ["99999999999999999999"]],
    [{ integer: true, exclusiveMinimum: 2 ** 53 }, ["9007199254740994"], ["9007199254740993"]],
    [{ maximum: Number.MAX_VALUE, minimum: -Number.MAX_VALUE }, ["1", "-1e99", "0.001"], []],
    [{ minimum: 1e-20, maximum: 2e-20 }, ["0.00000000000000000001"], ["0", "1"]],
    [{ exclusiveMinimum: 0.1, maximum: 0.3 }, ["0.3", "0.11"], ["0.1", "0.10", "0.31"]],
  ] as const)(
    "such as %j are met by exactly the expected numbers",
    (constraints, wanted, unwanted) => {
      const language = numberLanguage(constraints);
      expect(wanted.filter((text) => language?.accepts(text) !== true)).toEqual([]);
      expect(unwanted.filter((text) => language?.accepts(text))).toEqual([]);
      expect(language?.gbnf.length).toBeLessThan(40_000);
      expect(language?.stacksMax()).toBeLessThan(12);
    },
  );

  test.each([
    [{ minimum: 2, maximum: 1 }],
    [{ minimum: 1, exclusiveMaximum: 1 }],
    [{ integer: true, exclusiveMinimum: 1, exclusiveMaximum: 2 }],
    [{ integer: true, minimum: 0.1, maximum: 0.9 }],
    [{ multipleOf: 5, minimum: 1, maximum: 4 }],
    [{ multipleOf: 0.3, minimum: 0.1, maximum: 0.2 }],
    [{ multipleOf: 7, exclusiveMinimum: 0, exclusiveMaximum: 7 }],
  ])("such as %j allow no number", (constraints) => {
    expect(numberLanguage(constraints)).toBeUndefined();
  });

  test.each([
    [{ integer: true, multipleOf: 10_007 }, /"multipleOf" at #\/multipleOf .*states/],
    [{ integer: true, multipleOf: 2 ** 40 + 1, minimum: 1 }, /"multipleOf"/],
    [{ exclusiveMinimum: 1, exclusiveMaximum: 1 + 2 ** -52 }, /more digits than Berth generates/],
    [{ multipleOf: 1e-100 }, /places/],
  ])("such as %j are refused, and the error says why", (constraints, message) => {
    expect(() => numberLanguage(constraints)).toThrowError(message);
  });

  test("are applied by allowsNumber() without rounding errors, also to fractions and huge numbers", () => {
    expect(allows({ multipleOf: 0.01 }, 0.07)).toBe(true);
    expect(allows({ multipleOf: 0.01 }, 0.075)).toBe(false);
    expect(allows({ multipleOf: 3 }, 1e21)).toBe(false);
    expect(allows({ multipleOf: 1e-7 }, 1e22)).toBe(true);
    expect(allows({ integer: true }, 1.5)).toBe(false);
    expect(allows({ exclusiveMinimum: 1 }, 1)).toBe(false);
    expect(allows({ minimum: 1 }, 1)).toBe(true);
  });
});

function allows(constraints: object, value: number): boolean {
  return scalarGrammar.allowsNumber({ integer: false, pointer: "#", ...constraints }, value);
}

function refusedOr<Result>(work: () => Result): Result | "refused" {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "unsupported_schema") {
      return "refused";
    }
    throw error;
  }
}
