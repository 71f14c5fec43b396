import { UnsupportedConstructError } from "./budget.ts";
import { toSingleCodePoint } from "./code-points.ts";
import { parseClass } from "./parse-regex-class.ts";
import { parseEscape } from "./parse-regex-escape.ts";
import { PatternReader } from "./pattern-reader.ts";
import { makeChoice, makeSequence, type RegexNode } from "./regex-syntax.ts";
import { nonLineTerminators, wordCharacters } from "./unicode-sets.ts";

/** Far longer than patterns that people write; the parser calls itself for each group. */
const LENGTH_MAX = 8_192;
const DEPTH_MAX = 100;

export interface ParsedRegex {
  readonly root: RegexNode;
  /** False where the pattern is only valid without the flag `u`: it then counts UTF-16 units. */
  readonly unicode: boolean;
}

/**
 * Reads an ECMA-262 pattern with the flag `u`, as JSON Schema recommends; where it is only valid without
 * (`\-` outside of a class, as people like to write), without. Throws UnsupportedTextError for what is no
 * pattern, and for what no automaton can do.
 */
export function parseRegex(source: string): ParsedRegex {
  if (source.length > LENGTH_MAX) {
    throw new UnsupportedConstructError(`is longer than ${LENGTH_MAX} characters`);
  }
  const unicode = isValidRegex(source, "u");
  if (!unicode && !isValidRegex(source, "")) {
    throw new UnsupportedConstructError("is not a valid ECMA-262 regular expression");
  }
  const reader = new PatternReader(source, unicode);
  const root = parseChoice(reader, 0);
  if (!reader.isAtEnd())
    throw new UnsupportedConstructError("is not a valid ECMA-262 regular expression");
  return { root, unicode };
}

function isValidRegex(source: string, flags: string): boolean {
  try {
    return new RegExp(source, flags).source !== "";
  } catch {
    return false;
  }
}

function parseChoice(reader: PatternReader, depth: number): RegexNode {
  if (depth > DEPTH_MAX) {
    throw new UnsupportedConstructError(`has groups nested deeper than ${DEPTH_MAX}`);
  }
  const options: RegexNode[] = [];
  do options.push(parseSequence(reader, depth));
  while (reader.skip("|"));
  return makeChoice(options);
}

function parseSequence(reader: PatternReader, depth: number): RegexNode {
  const items: RegexNode[] = [];
  while (!reader.isAtEnd() && !reader.startsWith("|") && !reader.startsWith(")")) {
    items.push(parseQuantified(reader, depth));
  }
  return makeSequence(items);
}

function parseQuantified(reader: PatternReader, depth: number): RegexNode {
  const item = parseAtom(reader, depth);
  const quantifier = parseQuantifier(reader);
  if (quantifier === undefined) return item;
  reader.skip("?");
  return { kind: "repeat", item, ...quantifier };
}

function parseQuantifier(
  reader: PatternReader,
): { min: number; max: number | undefined } | undefined {
  if (reader.skip("*")) return { min: 0, max: undefined };
  if (reader.skip("+")) return { min: 1, max: undefined };
  if (reader.skip("?")) return { min: 0, max: 1 };
  // `{` that begins no quantifier is a character, without the flag `u`.
  const counted = reader.match(/\{(\d+)(,?)(\d*)\}/y);
  if (counted === undefined) return undefined;
  const [, from = "", comma = "", to = ""] = counted;
  const min = Number(from);
  if (comma === "") return { min, max: min };
  return { min, max: to === "" ? undefined : Number(to) };
}

function parseAtom(reader: PatternReader, depth: number): RegexNode {
  if (reader.skip("^")) return { kind: "start" };
  if (reader.skip("$")) return { kind: "end" };
  if (reader.skip(".")) return { kind: "class", points: nonLineTerminators };
  if (reader.skip("(")) return parseGroup(reader, depth);
  if (reader.skip("[")) return { kind: "class", points: parseClass(reader) };
  if (reader.skip("\\b")) return makeWordBoundary(false);
  if (reader.skip("\\B")) return makeWordBoundary(true);
  if (reader.skip("\\")) return { kind: "class", points: parseEscape(reader, "outside") };
  return { kind: "class", points: toSingleCodePoint(reader.next()) };
}

function parseGroup(reader: PatternReader, depth: number): RegexNode {
  const lookaround = reader.match(/\?(<?)([=!])/y);
  const isPlain =
    lookaround !== undefined || reader.skip("?:") || reader.match(/\?<[^>]*>/y) !== undefined;
  if (!isPlain && reader.startsWith("?")) {
    throw new UnsupportedConstructError("has a group with modifiers, which is not supported");
  }
  const item = parseChoice(reader, depth + 1);
  reader.skip(")");
  if (lookaround === undefined) return item;
  return { kind: lookaround[1] === "<" ? "behind" : "ahead", item, negated: lookaround[2] === "!" };
}

/** Between a word character and something else, in either order; negated: between two alike. */
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
