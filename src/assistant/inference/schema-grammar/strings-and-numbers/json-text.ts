import {
  type CodePoints,
  codePointsOf,
  intersectCodePoints,
  minusCodePoints,
} from "./code-points.ts";
import type { Term, Terms } from "./terms.ts";

/** What a JSON string cannot hold as it is. */
const escaped: CodePoints = [
  [0x00, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];

/** Those of them that JSON.stringify writes as a backslash and one character. */
const short: readonly (readonly [character: string, letter: string])[] = [
  ["\b", "b"],
  ["\t", "t"],
  ["\n", "n"],
  ["\f", "f"],
  ["\r", "r"],
  ['"', '"'],
  ["\\", "\\"],
];

const long = minusCodePoints(escaped, codePointsOf(short.map(([character]) => character).join("")));

/**
 * One character out of a set as it stands in a JSON string, in one spelling for each, the one that
 * JSON.stringify writes. Heavy sets become a rule.
 */
export function jsonCharacter(points: CodePoints, terms: Terms): Term {
  const raw = minusCodePoints(points, escaped);
  const letters = short
    .filter(([character]) => intersectCodePoints(points, codePointsOf(character)).length > 0)
    .map(([, letter]) => letter)
    .join("");
  const codes = intersectCodePoints(points, long);
  const options: Term[] = [];
  if (raw.length > 0) options.push(terms.points(raw));
  if (letters !== "") {
    options.push(terms.sequence([terms.literal("\\"), terms.points(codePointsOf(letters))]));
  }
  for (const high of [0, 1]) {
    const low = intersectCodePoints(codes, [[high * 16, high * 16 + 15]]);
    if (low.length === 0) continue;
    const lastDigits = low.flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, index) => ((from + index) % 16).toString(16)),
    );
    const hex = terms.points(codePointsOf(lastDigits.join("")));
    options.push(terms.sequence([terms.literal(`\\u00${high}`), hex]));
  }
  const character = terms.choice(options);
  return character.weight > 24 ? terms.asRule(character, "character") : character;
}
