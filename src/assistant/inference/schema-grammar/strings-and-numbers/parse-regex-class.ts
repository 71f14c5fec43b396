import type { CodePointRange } from "../expression.ts";
import { UnsupportedTextError } from "./budget.ts";
import {
  beyondBasic,
  type CodePoints,
  codePoint,
  complementCodePoints,
  normalCodePoints,
} from "./code-points.ts";
import { parseEscape } from "./parse-regex-escape.ts";
import type { PatternText } from "./pattern-text.ts";

/** A character class from after its `[` to past its `]`. */
export function parseClass(text: PatternText): CodePoints {
  const negated = text.take("^");
  const ranges: CodePointRange[] = [];
  while (!text.take("]")) {
    const from = parseMember(text);
    if (!text.startsWith("-") || text.startsWith("-]")) {
      ranges.push(...from.points);
      continue;
    }
    text.take("-");
    const to = parseMember(text);
    if (from.single === undefined || to.single === undefined) {
      // `[\w-.]`: without the flag `u` the hyphen stands for itself beside a set.
      ranges.push(...from.points, ...codePoint(0x2d), ...to.points);
    } else {
      ranges.push([from.single, to.single]);
      if (!text.unicode) ranges.push(...halves(from.single, to.single));
    }
  }
  const points = normalCodePoints(ranges);
  return negated ? complementCodePoints(points) : points;
}

/**
 * Without the flag `u` a character past U+FFFF is two units, and all those characters together stand for
 * "such a unit" (see `pattern-language.ts`): a range has all of the units, or none, or is refused.
 */
function halves(from: number, to: number): CodePoints {
  if (from <= 0xd800 && to >= 0xdfff) return beyondBasic;
  if (to < 0xd800 || from > 0xdfff) return [];
  throw new UnsupportedTextError("has a range that ends within the surrogates");
}

/** `single` where the member is one character, and may begin or end a range. */
function parseMember(text: PatternText): { points: CodePoints; single: number | undefined } {
  if (text.atEnd()) throw new UnsupportedTextError("is not a valid ECMA-262 regular expression");
  if (text.take("\\")) {
    const surrogate = text.match(/u([dD][89a-fA-F][0-9A-Fa-f]{2})(?!\\u[dD][c-fC-F])/y)?.[1];
    if (surrogate !== undefined) return { points: [], single: Number.parseInt(surrogate, 16) };
    const points = parseEscape(text, "in a class");
    const [first] = points;
    const one = points.length === 1 && first !== undefined && first[0] === first[1];
    return { points, single: one ? first[0] : undefined };
  }
  const single = text.next();
  return { points: codePoint(single), single };
}
