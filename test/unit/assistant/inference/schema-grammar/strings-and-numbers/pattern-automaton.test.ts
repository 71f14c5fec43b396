import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../../src/assistant/assistant-error.ts";
import { TextLanguage } from "../../../../../../src/assistant/inference/schema-grammar/strings-and-numbers/text-language.ts";
import { Dice } from "../../../../../support/random.ts";
import { randomRegex, randomText } from "../../../../../support/random-regex.ts";
import { stringLanguage, toStringPattern } from "../../../../../support/scalar-language.ts";
import { UNBOUNDED_AFTER_MS } from "../../../../../support/wait-limits.ts";

const pattern = (source: string) =>
  stringLanguage({ patterns: [toStringPattern("pattern", source)] });

/**
 * Compiles a pattern in the same way as Ajv: with the flag `u`, or without it if the pattern is invalid with the flag.
 */
function toRegExp(source: string): RegExp | undefined {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(source, flags);
    } catch {
      // The pattern is invalid with these flags, so the next ones are tried.
    }
  }
  return undefined;
}

/**
 * Returns true if the pattern matches at the start of a character. V8 also tries positions between the two
 * surrogates of a character, where `\\B` matches, although the flag `u` excludes such positions.
 */
function isFound(regExp: RegExp, text: string): boolean {
  if (!regExp.unicode) return regExp.test(text);
  const here = new RegExp(regExp.source, "uy");
  let index = 0;
  for (const character of [...Array.from(text), ""]) {
    here.lastIndex = index;
    if (here.test(text)) return true;
    index += character.length;
  }
  return false;
}

function compiled<Result>(work: () => Result): Result | "refused" {
  try {
    return work();
  } catch (error) {
    if (error instanceof AssistantError && error.code === "unsupported_schema") return "refused";
    throw error;
  }
}

describe("the automaton of any pattern", () => {
  test("accepts exactly the texts in which JavaScript finds the pattern", () => {
    let checked = 0;
    let found = 0;
    const check = (seed: number) => {
      const dice = new Dice(seed);
      const source = randomRegex(dice, 4);
      const regExp = toRegExp(source);
      const language = compiled(() => pattern(source));
      if (regExp === undefined) {
        expect(language).toBe("refused");
        return;
      }
      if (language === "refused") return;
      for (let index = 0; index < 12; index += 1) {
        const text = randomText(dice);
        const wanted = isFound(regExp, text);
        checked += 1;
        found += Number(wanted);
        const where = `${source} on ${JSON.stringify(text)}`;
        expect(`${where}: ${language?.accepts(JSON.stringify(text)) ?? false}`).toBe(
          `${where}: ${wanted}`,
        );
      }
      for (const text of language?.samples(6, seed) ?? []) {
        expect(`${source} on ${text}: ${regExp.test(JSON.parse(text))}`).toBe(
          `${source} on ${text}: true`,
        );
      }
    };
    fc.assert(fc.property(fc.integer(), check), { numRuns: 400 });
    expect(checked).toBeGreaterThan(2_000);
    expect(found).toBeGreaterThan(300);
  }, 60_000);

  test.each([
    ["^[a-z]{3,8}$", ["abc", "abcdefgh"], ["ab", "abcdefghi", "Abc"]],
    ["foo", ["foo", "a foo b", "ffoo"], ["fo o", ""]],
    ["^((?!foo).)*$", ["", "fo", "ofo"], ["foo", "a foo", "a\nb"]],
    ["^(?=.*[A-Z])(?=.*\\d).{4,}$", ["aB3d", "1aaaZ"], ["aB3", "abcd", "ABCD"]],
    ["\\bcat\\b", ["cat", "a cat!", "cat\n"], ["cats", "concat", "_cat"]],
    ["(?<=\\$)\\d+$", ["$42", "a$1"], ["42", "$4a"]],
    ["^(?<year>\\d{4})-(?:0[1-9]|1[0-2])$", ["2024-12"], ["2024-13"]],
    ["^\\p{Lu}\\p{Script=Greek}+$", ["Éαβ"], ["éαβ", "Éab"]],
    ["^[\\u{1F600}-\\u{1F64F}]$", ["😀"], ["a", "😀😀"]],
    ["^.{2}$", ["😀😀", "ab"], ["😀", "a\nb"]],
    ["^[^\\s]*?$", ["", "a/b"], ["a b", "\u00a0"]],
    ["^\\x41\\u0042\\cJ\\0$", ["AB\n\0"], ["AB"]],
    ["^a|b$", ["ax", "xb"], ["xa", "bx"]],
    ["^$", [""], ["a"]],
    ["(?!)|^x", ["xy"], ["yx"]],
    ["^(?:a{2}){2,3}$", ["aaaa", "aaaaaa"], ["aaa", "aaaaa"]],
    // Without the flag `u`, a character above U+FFFF counts as two UTF-16 code units.
    ["^[\\w\\-.]+\\@\\w+$", ["a-b@c"], ["@c", "a b@c"]],
    ["^\\-.$", ["-a"], ["-😀", "-"]],
    ["^\\-[^a]{2}$", ["-😀", "-bc"], ["-a😀", "-😀😀"]],
    ["\\-.$", ["-a", "x-b"], ["😀-"]],
  ] as const)("accepts the matching texts for %s", (source, wanted, unwanted) => {
    const language = pattern(source);
    const regExp = toRegExp(source);
    expect(wanted.filter((text) => regExp?.test(text) !== true)).toEqual([]);
    expect(unwanted.filter((text) => regExp?.test(text))).toEqual([]);
    expect(wanted.filter((text) => language?.accepts(JSON.stringify(text)) !== true)).toEqual([]);
    expect(unwanted.filter((text) => language?.accepts(JSON.stringify(text)))).toEqual([]);
  });

  test.each([
    ["^(a)\\1$", "backreference"],
    ["(?<x>a)\\k<x>", "backreference"],
    ["(?=\\bfoo)x", "word boundary inside"],
    ["[", "not a valid"],
    ["^(x{1,1000}){1,1000}$", "more states"],
    ["^(a|b)*a(a|b){18}$", "more states"],
    ["(((((x{1,50}){1,50}){1,50}){1,50}){1,50}){1,50}", "more states"],
    [`${"(".repeat(300)}a${")".repeat(300)}`, "nested deeper"],
    [`^${"a".repeat(9_000)}$`, "longer than"],
  ])("refuses the pattern %.40s without delay", (source, why) => {
    const before = performance.now();
    expect(() => pattern(source)).toThrowError(
      expect.objectContaining({
        code: "unsupported_schema",
        message: expect.stringMatching(new RegExp(`"pattern" at #/pattern .*${why}`)),
      }),
    );
    expect(performance.now() - before).toBeLessThan(UNBOUNDED_AFTER_MS);
  });

  test.each(["^(a|a)*$", "^(a*)*b$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){12}"])(
    "is small even for %s, which makes backtracking engines slow",
    (source) => {
      const language = pattern(source);
      expect(language?.gbnf.length).toBeLessThan(5_000);
    },
  );

  test("is undefined, without an error, if no string meets the constraints", () => {
    expect(pattern("a^")).toBeUndefined();
    expect(pattern("^(?=a)b")).toBeUndefined();
    expect(
      stringLanguage({
        patterns: [toStringPattern("pattern", "^a*$")],
        minLength: 2,
        maxLength: 1,
      }),
    ).toBe(undefined);
    const even = stringLanguage({
      patterns: [toStringPattern("pattern", "^(..)*$")],
      minLength: 3,
      maxLength: 3,
    });
    expect(even).toBeUndefined();
  });
});

describe("languages of strings", () => {
  test("obey the laws of set algebra", () => {
    fc.assert(fc.property(fc.integer(), checkLaws), { numRuns: 60 });
  }, 60_000);

  test("never become empty because of a reduced maximum length", () => {
    const words = TextLanguage.fromPattern("^[a-z]+( [a-z]+)*$");
    const few = words.restrictLength({ min: 3_000, max: 100_000 });
    expect(few.isEmpty()).toBe(false);
    expect(few.accepts("a".repeat(2_999))).toBe(false);
    expect(few.accepts("a".repeat(3_000))).toBe(true);
    expect(TextLanguage.fromTexts(["a", "abc"]).restrictLength({ min: 2, max: 2 }).isEmpty()).toBe(
      true,
    );
  });
});

function checkLaws(seed: number): void {
  const dice = new Dice(seed);
  const make = () => compiled(() => toLanguage(randomRegex(dice, 2)));
  const [left, right] = [make(), make()];
  if (typeof left === "string" || typeof right === "string") return;
  for (let index = 0; index < 8; index += 1) {
    const text = randomText(dice);
    const [a, b] = [left.accepts(text), right.accepts(text)];
    expect(left.intersect(right).accepts(text)).toBe(a && b);
    expect(left.union(right).accepts(text)).toBe(a || b);
    expect(left.subtract(right).accepts(text)).toBe(a && !b);
    expect(left.complement().accepts(text)).toBe(!a);
  }
  expect(left.intersect(left.complement()).isEmpty()).toBe(true);
  expect(left.union(left.complement()).automaton).toEqual(TextLanguage.universal().automaton);
  expect(left.complement().complement().automaton).toEqual(left.automaton);
}

function toLanguage(source: string): TextLanguage {
  try {
    return TextLanguage.fromPattern(source);
  } catch (error) {
    throw new AssistantError("unsupported_schema", String(error));
  }
}
