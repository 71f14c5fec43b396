import { UnsupportedTextError } from "./budget.ts";
import { type CodePoints, codePoint, complementCodePoints } from "./code-points.ts";
import type { PatternText } from "./pattern-text.ts";
import { digits, propertyCodePoints, whiteSpace, wordCharacters } from "./unicode-sets.ts";

const sets: Readonly<Record<string, CodePoints>> = {
  d: digits,
  D: complementCodePoints(digits),
  w: wordCharacters,
  W: complementCodePoints(wordCharacters),
  s: whiteSpace,
  S: complementCodePoints(whiteSpace),
};

const controls: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 };

/**
 * What comes after a backslash, as the set of characters that it stands for. The source is known to be
 * valid, so what is not an escape of the standard is the character itself, as engines read it without `u`.
 */
export function parseEscape(text: PatternText, where: "outside" | "in a class"): CodePoints {
  const letter = text.match(/[dDwWsS]/y)?.[0];
  if (letter !== undefined) return sets[letter] ?? [];
  const control = text.match(/[tnvfr]/y)?.[0];
  if (control !== undefined) return codePoint(controls[control] ?? 0);
  if (where === "in a class" && text.take("b")) return codePoint(8);
  const caret = text.match(/c([A-Za-z])/y)?.[1];
  if (caret !== undefined) return codePoint(caret.charCodeAt(0) % 32);
  if (text.startsWith("c")) throw new UnsupportedTextError("has \\c without a letter");
  const byte = text.match(/x([0-9A-Fa-f]{2})/y)?.[1];
  if (byte !== undefined) return codePoint(Number.parseInt(byte, 16));
  if (text.match(/0(?![0-9])/y) !== undefined) return codePoint(0);
  if (text.match(/[0-9]/y) !== undefined) {
    throw new UnsupportedTextError(
      "has a backreference or an octal escape, which is not supported",
    );
  }
  if ((text.unicode || text.namedGroups) && text.startsWith("k")) {
    throw new UnsupportedTextError("has a backreference, which is not supported");
  }
  return parseUnicodeEscape(text) ?? codePoint(text.next());
}

function parseUnicodeEscape(text: PatternText): CodePoints | undefined {
  if (text.unicode) {
    const property = text.match(/([pP])\{([^}]*)\}/y);
    if (property !== undefined) {
      const points = propertyCodePoints(property[2] ?? "");
      return property[1] === "P" ? complementCodePoints(points) : points;
    }
    const braced = text.match(/u\{([0-9A-Fa-f]+)\}/y)?.[1];
    if (braced !== undefined) return codePoint(Number.parseInt(braced, 16));
    const pair = text.match(/u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})/y);
    if (pair !== undefined) {
      const high = Number.parseInt(pair[1] ?? "", 16);
      const low = Number.parseInt(pair[2] ?? "", 16);
      return codePoint((high - 0xd800) * 0x400 + (low - 0xdc00) + 0x10000);
    }
  }
  const unit = text.match(/u([0-9A-Fa-f]{4})/y)?.[1];
  return unit === undefined ? undefined : codePoint(Number.parseInt(unit, 16));
}
