import { type AST, RegExpParser } from "@eslint-community/regexpp";
import { UnsupportedConstructError } from "./budget.ts";
import {
  type CodePoints,
  complementCodePoints,
  normalizeCodePoints,
  supplementaryCodePoints,
  toSingleCodePoint,
} from "./code-points.ts";
import { makeChoice, makeSequence, type RegexNode } from "./regex-syntax.ts";
import {
  digits,
  getPropertyCodePoints,
  nonLineTerminators,
  whiteSpace,
  wordCharacters,
} from "./unicode-sets.ts";

/** The maximum length of a pattern, far longer than patterns that people write. */
const LENGTH_MAX = 8_192;
/** The maximum depth of nested groups, because the parser calls itself for each group. */
const DEPTH_MAX = 100;

const escapedSets = { digit: digits, space: whiteSpace, word: wordCharacters };
const parser = new RegExpParser();

export interface ParsedRegex {
  readonly root: RegexNode;
  /** False if the pattern is only valid without the flag `u`: it then reads UTF-16 units. */
  readonly unicode: boolean;
}

/**
 * Parses an ECMA-262 pattern with the flag `u`, as JSON Schema recommends, or without the flag if the pattern is only
 * valid without it, as with `\-` outside of a class. Throws UnsupportedConstructError if the pattern is invalid, too
 * long, nested too deeply, or has a construct that no automaton can match.
 */
export function parseRegex(source: string): ParsedRegex {
  if (source.length > LENGTH_MAX) {
    throw new UnsupportedConstructError(`is longer than ${LENGTH_MAX} characters`);
  }
  const unicode = isValidRegex(source, "u");
  if (!unicode && !isValidRegex(source, "")) throw invalidRegex();
  if (measureDepth(source) > DEPTH_MAX) {
    throw new UnsupportedConstructError(`has groups nested deeper than ${DEPTH_MAX}`);
  }
  if (!unicode && /[\u{10000}-\u{10FFFF}]/u.test(source)) {
    throw new UnsupportedConstructError(
      "has a character past U+FFFF and is only valid without the flag u, where such a character is two units",
    );
  }
  return { root: convertChoice(parsePattern(source, unicode), unicode), unicode };
}

/** The JavaScript engine decides what is valid: the same engine validates the answer later. */
function isValidRegex(source: string, flags: string): boolean {
  try {
    return new RegExp(source, flags).source !== "";
  } catch {
    return false;
  }
}

function parsePattern(source: string, unicode: boolean): AST.Pattern {
  try {
    return parser.parsePattern(source, 0, source.length, { unicode });
  } catch {
    throw invalidRegex();
  }
}

function invalidRegex(): UnsupportedConstructError {
  return new UnsupportedConstructError("is not a valid ECMA-262 regular expression");
}

/**
 * Returns how deep groups are nested in a valid pattern. The depth is measured before the pattern is parsed, because
 * the parser would overflow the stack.
 */
function measureDepth(source: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of source.matchAll(/\\.|\[(?:\\.|[^\\\]])*\]|[()]/gs)) {
    if (token === "(") deepest = Math.max(deepest, ++depth);
    else if (token === ")") depth--;
  }
  return deepest;
}

function convertChoice(
  { alternatives }: { readonly alternatives: readonly AST.Alternative[] },
  unicode: boolean,
): RegexNode {
  const options = alternatives.map(({ elements }) =>
    makeSequence(elements.map((element) => convertElement(element, unicode))),
  );
  return makeChoice(options);
}

function convertElement(element: AST.Element, unicode: boolean): RegexNode {
  switch (element.type) {
    case "Character":
      return { kind: "class", points: toSingleCodePoint(getValue(element)) };
    case "CharacterSet":
      return { kind: "class", points: toSet(element) };
    case "CharacterClass":
      return { kind: "class", points: toClass(element, unicode) };
    case "Quantifier": {
      const item = convertElement(element.element, unicode);
      const max = element.max === Number.POSITIVE_INFINITY ? undefined : element.max;
      return { kind: "repeat", item, min: element.min, max };
    }
    case "Group":
      if (element.modifiers === null) return convertChoice(element, unicode);
      throw new UnsupportedConstructError("has a group with modifiers, which is not supported");
    case "CapturingGroup":
      return convertChoice(element, unicode);
    case "Assertion":
      if ("alternatives" in element) {
        const kind = element.kind === "lookahead" ? "ahead" : "behind";
        return { kind, item: convertChoice(element, unicode), negated: element.negate };
      }
      return element.kind === "word" ? makeWordBoundary(element.negate) : { kind: element.kind };
    case "Backreference":
      if (typeof element.ref === "number") throw numberedEscape();
      throw new UnsupportedConstructError("has a backreference, which is not supported");
    default:
      // Classes of the regular expression flag `v` are not supported.
      throw invalidRegex();
  }
}

function getValue({ raw, value }: AST.Character): number {
  if (/^\\(?:[1-9]|0\d)/.test(raw)) throw numberedEscape();
  // This pattern also matches a lone `\`, and `\c` without a letter: the parser returns the backslash of both as a
  // character.
  if (/^\\(?:c[^A-Za-z])?$/.test(raw)) {
    throw new UnsupportedConstructError("has \\c without a letter");
  }
  return value;
}

function numberedEscape(): UnsupportedConstructError {
  return new UnsupportedConstructError(
    "has a backreference or an octal escape, which is not supported",
  );
}

function toSet(set: AST.CharacterSet): CodePoints {
  if (set.kind === "any") return nonLineTerminators;
  const points =
    set.kind === "property"
      ? getPropertyCodePoints(set.value === null ? set.key : `${set.key}=${set.value}`)
      : escapedSets[set.kind];
  return set.negate ? complementCodePoints(points) : points;
}

function toClass({ elements, negate }: AST.CharacterClass, unicode: boolean): CodePoints {
  const ranges = elements.flatMap((element) => {
    if (element.type === "Character") return toSingleCodePoint(getValue(element));
    if (element.type === "CharacterSet") return toSet(element);
    if (element.type !== "CharacterClassRange") throw invalidRegex();
    const from = getValue(element.min);
    const to = getValue(element.max);
    return unicode ? [[from, to] as const] : [[from, to] as const, ...mapSurrogateRange(from, to)];
  });
  const points = normalizeCodePoints(ranges);
  return negate ? complementCodePoints(points) : points;
}

/**
 * Maps a range with all surrogates to all characters past U+FFFF, and a range without surrogates to none. Refuses a
 * range with only some surrogates: a pattern without the flag `u` reads a character past U+FFFF as two surrogates, but
 * the automaton reads whole characters (see `pattern-automaton.ts`).
 */
function mapSurrogateRange(from: number, to: number): CodePoints {
  if (from <= 0xd800 && to >= 0xdfff) return supplementaryCodePoints;
  if (to < 0xd800 || from > 0xdfff) return [];
  throw new UnsupportedConstructError("has a range that ends within the surrogates");
}

/**
 * Builds `\b` or `\B` from lookarounds: `\b` needs a word character on exactly one side, `\B` on both sides or on
 * neither side.
 */
function makeWordBoundary(negated: boolean): RegexNode {
  const word: RegexNode = { kind: "class", points: wordCharacters };
  const side = (before: boolean, after: boolean): RegexNode => ({
    kind: "sequence",
    items: [
      { kind: "behind", item: word, negated: !before },
      { kind: "ahead", item: word, negated: !after },
    ],
  });
  return { kind: "choice", options: [side(true, negated), side(false, !negated)] };
}
