import {
  type CodePoints,
  intersectCodePoints,
  subtractCodePoints,
  toCodePoints,
} from "./code-points.ts";
import type { ExpressionBuilder, InternedExpression } from "./expression-builder.ts";

/** The code points that must be escaped in a JSON string. */
const escapedCodePoints: CodePoints = [
  [0x00, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];

/** The escapes that JSON.stringify writes as a backslash and one character. */
const shortEscapes: readonly (readonly [character: string, letter: string])[] = [
  ["\b", "b"],
  ["\t", "t"],
  ["\n", "n"],
  ["\f", "f"],
  ["\r", "r"],
  ['"', '"'],
  ["\\", "\\"],
];

const unicodeEscapes = subtractCodePoints(
  escapedCodePoints,
  toCodePoints(shortEscapes.map(([character]) => character).join("")),
);

/**
 * Returns an expression for any one character of `points` in a JSON string, spelled as JSON.stringify spells it. The
 * expression for a large set becomes a grammar rule.
 */
export function compileJsonCharacter(
  points: CodePoints,
  builder: ExpressionBuilder,
): InternedExpression {
  const raw = subtractCodePoints(points, escapedCodePoints);
  const letters = shortEscapes
    .filter(([character]) => intersectCodePoints(points, toCodePoints(character)).length > 0)
    .map(([, letter]) => letter)
    .join("");
  const codes = intersectCodePoints(points, unicodeEscapes);
  const options: InternedExpression[] = [];
  if (raw.length > 0) options.push(builder.characterClass(raw));
  if (letters !== "") {
    options.push(
      builder.sequence([builder.literal("\\"), builder.characterClass(toCodePoints(letters))]),
    );
  }
  for (const high of [0, 1]) {
    const low = intersectCodePoints(codes, [[high * 16, high * 16 + 15]]);
    if (low.length === 0) continue;
    const lastDigits = low.flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, index) => ((from + index) % 16).toString(16)),
    );
    const hex = builder.characterClass(toCodePoints(lastDigits.join("")));
    options.push(builder.sequence([builder.literal(`\\u00${high}`), hex]));
  }
  const character = builder.choice(options);
  return character.weight > 24 ? builder.extractRule(character, "character") : character;
}
