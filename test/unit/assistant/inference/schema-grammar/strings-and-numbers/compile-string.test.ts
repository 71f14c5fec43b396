import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { scalarGrammar } from "../../../../../../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { stringLanguage, toStringPattern } from "../../../../../support/scalar-language.ts";

const none = { patterns: [], forbiddenPatterns: [], formats: [], excluded: [] };
const lengthOf = (text: string) => Array.from(text).length;

describe("the language of plain strings", () => {
  test("accepts all output of JSON.stringify, except lone surrogates", () => {
    const language = stringLanguage({});
    const check = (text: string) => {
      expect(language?.accepts(JSON.stringify(text))).toBe(true);
    };
    fc.assert(fc.property(fc.string({ unit: "binary" }), check), { numRuns: 100 });
    for (let code = 0; code < 0x100; code += 1) check(String.fromCharCode(code));
    check("\u2028\uffff\u{10ffff}");
    expect(language?.accepts('"\ud800"')).toBe(false);
    expect(language?.accepts('"\\ud800"')).toBe(false);
    expect(language?.accepts('"\n"')).toBe(false);
    expect(language?.accepts('"a')).toBe(false);
    expect(language?.accepts('"a"b"')).toBe(false);
  });

  test("contains only one spelling of each string", () => {
    const language = stringLanguage({});
    for (const text of language?.samples(300, 7) ?? []) {
      expect(JSON.stringify(JSON.parse(text))).toBe(text);
    }
  });

  test.each([
    [0, 0],
    [0, 5],
    [3, undefined],
    [2, 2],
    [0, 1_000],
    [7, 2_000],
    [1_500, 2_500],
    [0, 4_097],
    [1_234, 65_535],
    [0, 1_000_000],
  ] as const)("can require %s to %s characters, counted as code points", (min, max) => {
    const language = stringLanguage({ minLength: min, maxLength: max });
    const fits = (length: number) => length >= min && length <= (max ?? length);
    const lengths = [0, 1, min - 1, min, min + 1, min + 44, min + 99, min + 700, 64, 65, 1_001];
    if (max !== undefined && max < 10_000) lengths.push(max - 45, max - 1, max, max + 1, max + 63);
    for (const length of lengths.filter((one) => one >= 0)) {
      for (const character of ["a", "😀", '"']) {
        const text = JSON.stringify(character.repeat(length));
        expect(`${length}: ${language?.accepts(text)}`).toBe(`${length}: ${fits(length)}`);
      }
    }
    expect(language?.stacksMax()).toBeLessThan(20);
    expect(language?.gbnf.length).toBeLessThan(500);
  });

  test("is empty if the bounds contradict each other", () => {
    expect(stringLanguage({ minLength: 3, maxLength: 2 })).toBeUndefined();
    expect(scalarGrammar.matchesNoString({ ...none, minLength: 3, maxLength: 2 })).toBe(true);
    expect(scalarGrammar.matchesNoString({ ...none, minLength: 3, maxLength: 3 })).toBe(false);
  });
});

/** Checks a text against the combined constraints, as a reference for the grammar. */
function isRight(text: string): boolean {
  return (
    /^[a-z0-9-]*[0-9][a-z0-9-]*$/.test(text) &&
    !text.startsWith("x-") &&
    !text.includes("--") &&
    !["a1", "b2"].includes(text) &&
    lengthOf(text) >= 2 &&
    lengthOf(text) <= 6
  );
}

describe("combined string constraints", () => {
  const together = {
    patterns: [toStringPattern("pattern", "^[a-z0-9-]+$"), toStringPattern("pattern", "[0-9]")],
    forbiddenPatterns: [
      toStringPattern("patternProperties", "^x-"),
      toStringPattern("patternProperties", "--"),
    ],
    excluded: ["a1", "b2"],
    minLength: 2,
    maxLength: 6,
  };
  test("must all be met by a string", () => {
    const language = stringLanguage(together);
    const check = (text: string) => {
      expect(language?.accepts(JSON.stringify(text))).toBe(isRight(text));
      expect(scalarGrammar.allowsString({ ...none, ...together }, text)).toBe(isRight(text));
    };
    const letters = fc.constantFrom("a", "1", "b", "2", "x", "-", "Z");
    fc.assert(fc.property(fc.string({ unit: letters, maxLength: 8 }), check), { numRuns: 300 });
    for (const text of language?.samples(200, 3) ?? [])
      expect(isRight(JSON.parse(text))).toBe(true);
  });

  test("accept no string of the list `excluded`, and every other string", () => {
    const language = stringLanguage({ excluded: ["name", "na", "é😀", "\ud800", '"'] });
    for (const text of ["name", "na", "é😀", '"']) {
      expect(language?.accepts(JSON.stringify(text))).toBe(false);
    }
    for (const text of ["", "n", "nam", "names", "é", "é😀😀", "x"]) {
      expect(language?.accepts(JSON.stringify(text))).toBe(true);
    }
  });

  test("are recognised as contradictory if their languages are disjoint", () => {
    const no = (first: string, second: string) =>
      scalarGrammar.matchesNoString({
        ...none,
        patterns: [toStringPattern("pattern", first), toStringPattern("pattern", second)],
      });
    expect(no("^a", "^b")).toBe(true);
    expect(no("a", "b")).toBe(false);
    expect(no("^\\d+$", "[a-f]")).toBe(true);
    expect(
      scalarGrammar.matchesNoString({
        ...none,
        formats: [toStringPattern("format", "date"), toStringPattern("format", "uuid")],
      }),
    ).toBe(true);
    // The grammar generates only some of the valid host names. The test does not fail for a valid name that it omits.
    const hyphens = {
      ...none,
      formats: [toStringPattern("format", "hostname")],
      patterns: [toStringPattern("pattern", "^a--b$")],
    };
    expect(scalarGrammar.matchesNoString(hyphens)).toBe(false);
    expect(scalarGrammar.allowsString(hyphens, "a--b")).toBe(true);
  });
});

describe("the size of string grammars", () => {
  test.each([
    ["^[a-z]{3,8}$", 40],
    ["^[a-z]{1,2000}$", 100],
    ["^(ab){1,1000}$", 100],
    ["^(\\d{3}-){0,100}\\d{3}$", 100],
    ["^[a-z0-9]+(-[a-z0-9]+)*$", 100],
    ["^#(?:[0-9a-fA-F]{3}){1,2}$", 200],
    ["^\\d+(\\.\\d+)?$", 60],
    ["^[A-Za-z](?:[_-]?[A-Za-z0-9]){0,62}$", 150],
    ["^[^<>]{0,5000}$", 400],
  ] as const)("of %s is at most %s bytes", (source, bytes) => {
    const language = stringLanguage({ patterns: [toStringPattern("pattern", source)] });
    expect(language?.gbnf.length).toBeLessThan(bytes);
    for (const text of language?.samples(20, 5) ?? []) {
      expect(new RegExp(source, "u").test(JSON.parse(text))).toBe(true);
    }
  });

  test("grows by one rule per character if a pattern is combined with a maximum length", () => {
    const language = stringLanguage({
      patterns: [toStringPattern("pattern", "^[a-z0-9]+(-[a-z0-9]+)*$")],
      maxLength: 63,
    });
    expect(language?.gbnf.length).toBeLessThan(5_000);
    expect(language?.accepts(JSON.stringify("a".repeat(63)))).toBe(true);
    expect(language?.accepts(JSON.stringify(`${"a-".repeat(31)}b`))).toBe(true);
    expect(language?.accepts(JSON.stringify("a".repeat(64)))).toBe(false);
  });

  test("is small enough that a sampler follows only a few parser stacks at a time", () => {
    for (const source of ["foo", "^(a|ab)(c|bcd)$", "(a|b)*abb", "\\d{3,}x"]) {
      const language = stringLanguage({ patterns: [toStringPattern("pattern", source)] });
      for (const text of language?.samples(20, 9) ?? []) language?.accepts(text);
      expect(language?.stacksMax()).toBeLessThan(12);
    }
  });
});
