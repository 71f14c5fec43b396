import { UnsupportedConstructError } from "./budget.ts";
import { type CodePoints, complementCodePoints, toSingleCodePoint } from "./code-points.ts";
import type { PatternReader } from "./pattern-reader.ts";
import { digits, getPropertyCodePoints, whiteSpace, wordCharacters } from "./unicode-sets.ts";

const classEscapes: Readonly<Record<string, CodePoints>> = {
  d: digits,
  D: complementCodePoints(digits),
  w: wordCharacters,
  W: complementCodePoints(wordCharacters),
  s: whiteSpace,
  S: complementCodePoints(whiteSpace),
};

const controlEscapes: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 };

/**
 * What comes after a backslash, as the set of characters that it stands for. The source is known to be
 * valid, so what is not an escape of the standard is the character itself, as engines read it without `u`.
 */
export function parseEscape(reader: PatternReader, where: "outside" | "in a class"): CodePoints {
  const letter = reader.match(/[dDwWsS]/y)?.[0];
  if (letter !== undefined) return classEscapes[letter] ?? [];
  const control = reader.match(/[tnvfr]/y)?.[0];
  if (control !== undefined) return toSingleCodePoint(controlEscapes[control] ?? 0);
  if (where === "in a class" && reader.skip("b")) return toSingleCodePoint(8);
  const caret = reader.match(/c([A-Za-z])/y)?.[1];
  if (caret !== undefined) return toSingleCodePoint(caret.charCodeAt(0) % 32);
  if (reader.startsWith("c")) throw new UnsupportedConstructError("has \\c without a letter");
  const byte = reader.match(/x([0-9A-Fa-f]{2})/y)?.[1];
  if (byte !== undefined) return toSingleCodePoint(Number.parseInt(byte, 16));
  if (reader.match(/0(?![0-9])/y) !== undefined) return toSingleCodePoint(0);
  if (reader.match(/[0-9]/y) !== undefined) {
    throw new UnsupportedConstructError(
      "has a backreference or an octal escape, which is not supported",
    );
  }
  if ((reader.isUnicode || reader.hasNamedGroups) && reader.startsWith("k")) {
    throw new UnsupportedConstructError("has a backreference, which is not supported");
  }
  return parseUnicodeEscape(reader) ?? toSingleCodePoint(reader.next());
}

function parseUnicodeEscape(reader: PatternReader): CodePoints | undefined {
  if (reader.isUnicode) {
    const property = reader.match(/([pP])\{([^}]*)\}/y);
    if (property !== undefined) {
      const points = getPropertyCodePoints(property[2] ?? "");
      return property[1] === "P" ? complementCodePoints(points) : points;
    }
    const braced = reader.match(/u\{([0-9A-Fa-f]+)\}/y)?.[1];
    if (braced !== undefined) return toSingleCodePoint(Number.parseInt(braced, 16));
    const pair = reader.match(/u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})/y);
    if (pair !== undefined) {
      const high = Number.parseInt(pair[1] ?? "", 16);
      const low = Number.parseInt(pair[2] ?? "", 16);
      return toSingleCodePoint((high - 0xd800) * 0x400 + (low - 0xdc00) + 0x10000);
    }
  }
  const unit = reader.match(/u([0-9A-Fa-f]{4})/y)?.[1];
  return unit === undefined ? undefined : toSingleCodePoint(Number.parseInt(unit, 16));
}
