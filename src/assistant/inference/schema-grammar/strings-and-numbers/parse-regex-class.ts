import type { CodePointRange } from "../expression.ts";
import { UnsupportedConstructError } from "./budget.ts";
import {
  type CodePoints,
  complementCodePoints,
  normalizeCodePoints,
  supplementaryCodePoints,
  toSingleCodePoint,
} from "./code-points.ts";
import { parseEscape } from "./parse-regex-escape.ts";
import type { PatternReader } from "./pattern-reader.ts";

/** A character class from after its `[` to past its `]`. */
export function parseClass(reader: PatternReader): CodePoints {
  const negated = reader.skip("^");
  const ranges: CodePointRange[] = [];
  while (!reader.skip("]")) {
    const from = parseMember(reader);
    if (!reader.startsWith("-") || reader.startsWith("-]")) {
      ranges.push(...from.points);
      continue;
    }
    reader.skip("-");
    const to = parseMember(reader);
    if (from.single === undefined || to.single === undefined) {
      // `[\w-.]`: without the flag `u` the hyphen stands for itself beside a set.
      ranges.push(...from.points, ...toSingleCodePoint(0x2d), ...to.points);
    } else {
      ranges.push([from.single, to.single]);
      if (!reader.isUnicode) ranges.push(...mapSurrogateRange(from.single, to.single));
    }
  }
  const points = normalizeCodePoints(ranges);
  return negated ? complementCodePoints(points) : points;
}

/**
 * Without the flag `u` a character past U+FFFF is two units, and all those characters together stand for
 * "such a unit" (see `pattern-language.ts`): a range has all of the units, or none, or is refused.
 */
function mapSurrogateRange(from: number, to: number): CodePoints {
  if (from <= 0xd800 && to >= 0xdfff) return supplementaryCodePoints;
  if (to < 0xd800 || from > 0xdfff) return [];
  throw new UnsupportedConstructError("has a range that ends within the surrogates");
}

/** `single` where the member is one character, and may begin or end a range. */
function parseMember(reader: PatternReader): { points: CodePoints; single: number | undefined } {
  if (reader.isAtEnd())
    throw new UnsupportedConstructError("is not a valid ECMA-262 regular expression");
  if (reader.skip("\\")) {
    const surrogate = reader.match(/u([dD][89a-fA-F][0-9A-Fa-f]{2})(?!\\u[dD][c-fC-F])/y)?.[1];
    if (surrogate !== undefined) return { points: [], single: Number.parseInt(surrogate, 16) };
    const points = parseEscape(reader, "in a class");
    const [first] = points;
    const one = points.length === 1 && first !== undefined && first[0] === first[1];
    return { points, single: one ? first[0] : undefined };
  }
  const single = reader.next();
  return { points: toSingleCodePoint(single), single };
}
