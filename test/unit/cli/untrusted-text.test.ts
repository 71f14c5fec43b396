import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  sanitizeBlock,
  sanitizeJson,
  sanitizeLine,
  sanitizeText,
} from "../../../src/cli/companion/untrusted-text.ts";
import { displayWidth } from "../../../src/cli/output/display-width.ts";

const controlCharacters =
  // oxlint-disable-next-line no-control-regex -- the pattern must match control characters
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u2028-\u202E\u2066-\u2069\u200B\uFEFF]/;
const hostileCharacters = fc.constantFrom(
  ...Array.from("ab \n\t\r\u0007\u001b[]0m;\u007f\u009b\u202e\u2066\u200b\u2028\ufeff家\u{e0041}é"),
  "👩‍👩‍👧",
);
const texts = fc.array(hostileCharacters, { maxLength: 60 }).map((parts) => parts.join(""));

describe("untrusted text", () => {
  it("contains no control characters and no invisible characters", () => {
    fc.assert(
      fc.property(texts, (text) => {
        expect(sanitizeLine(text)).not.toMatch(controlCharacters);
        expect(sanitizeLine(text)).not.toContain("\n");
        expect(sanitizeText(text)).not.toMatch(controlCharacters);
        expect(sanitizeBlock(text, "  | ", 40)).not.toMatch(controlCharacters);
      }),
    );
  });

  it("is printed with a prefix before every line, and no line is wider than the terminal", () => {
    fc.assert(
      fc.property(texts, fc.integer({ min: 24, max: 60 }), (text, width) => {
        for (const line of sanitizeBlock(text, "  | ", width).split("\n")) {
          expect(line.startsWith("  | ")).toBe(true);
          expect(displayWidth(line)).toBeLessThanOrEqual(width);
        }
      }),
    );
  });

  it("loses only spaces when a line is wrapped", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z \n]{0,120}$/), (text) => {
        const back = sanitizeBlock(text, "> ", 30)
          .split("\n")
          .map((line) => line.slice(2))
          .join("");
        expect(back.replace(/\s/g, "")).toBe(text.replace(/\s/g, ""));
      }),
    );
  });

  it("is wrapped without the space at the end of the line", () => {
    expect(sanitizeBlock("one two three four five six seven", "", 20)).toBe(
      "one two three four\nfive six seven",
    );
    expect(sanitizeBlock("one two three four f five", "", 20)).toBe("one two three four f\nfive");
  });

  it("parses to the same document after it was sanitised as JSON", () => {
    fc.assert(
      fc.property(fc.jsonValue(), texts, (value, text) => {
        const shown = sanitizeJson({ value, text });
        expect(shown).not.toMatch(controlCharacters);
        expect(JSON.parse(shown)).toEqual(JSON.parse(JSON.stringify({ value, text })));
      }),
    );
  });

  it.each([
    ["a\u001b[31mb", "a?[31mb", "ab", "> a\\u{1b}[31mb"],
    ["a\u202eb", "a\\u{202e}b", "a\\u{202e}b", "> a\\u{202e}b"],
    ["a\tb\nc", "a b c", "a\tb\nc", "> a    b\n> c"],
    ["שלום 👩‍👧", "שלום 👩‍👧", "שלום 👩‍👧", "> שלום 👩‍👧"],
  ])("is escaped or sanitised: %j", (text, line, several, block) => {
    expect([sanitizeLine(text), sanitizeText(text), sanitizeBlock(text, "> ", 40)]).toEqual([
      line,
      several,
      block,
    ]);
  });
});
