import { UnsupportedTextError } from "./budget.ts";
import { codePoint } from "./code-points.ts";
import { parseClass } from "./parse-regex-class.ts";
import { parseEscape } from "./parse-regex-escape.ts";
import { PatternText } from "./pattern-text.ts";
import { choiceOf, type RegexNode, sequenceOf } from "./regex-syntax.ts";
import { notLineEnds, wordCharacters } from "./unicode-sets.ts";

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
    throw new UnsupportedTextError(`is longer than ${LENGTH_MAX} characters`);
  }
  const unicode = compiles(source, "u");
  if (!unicode && !compiles(source, "")) {
    throw new UnsupportedTextError("is not a valid ECMA-262 regular expression");
  }
  const text = new PatternText(source, unicode);
  const root = parseChoice(text, 0);
  if (!text.atEnd()) throw new UnsupportedTextError("is not a valid ECMA-262 regular expression");
  return { root, unicode };
}

function compiles(source: string, flags: string): boolean {
  try {
    return new RegExp(source, flags).source !== "";
  } catch {
    return false;
  }
}

function parseChoice(text: PatternText, depth: number): RegexNode {
  if (depth > DEPTH_MAX) {
    throw new UnsupportedTextError(`has groups nested deeper than ${DEPTH_MAX}`);
  }
  const options: RegexNode[] = [];
  do options.push(parseSequence(text, depth));
  while (text.take("|"));
  return choiceOf(options);
}

function parseSequence(text: PatternText, depth: number): RegexNode {
  const items: RegexNode[] = [];
  while (!text.atEnd() && !text.startsWith("|") && !text.startsWith(")")) {
    items.push(parseQuantified(text, depth));
  }
  return sequenceOf(items);
}

function parseQuantified(text: PatternText, depth: number): RegexNode {
  const item = parseAtom(text, depth);
  const quantifier = parseQuantifier(text);
  if (quantifier === undefined) return item;
  text.take("?");
  return { kind: "repeat", item, ...quantifier };
}

function parseQuantifier(text: PatternText): { min: number; max: number | undefined } | undefined {
  if (text.take("*")) return { min: 0, max: undefined };
  if (text.take("+")) return { min: 1, max: undefined };
  if (text.take("?")) return { min: 0, max: 1 };
  // `{` that begins no quantifier is a character, without the flag `u`.
  const counted = text.match(/\{(\d+)(,?)(\d*)\}/y);
  if (counted === undefined) return undefined;
  const [, from = "", comma = "", to = ""] = counted;
  const min = Number(from);
  if (comma === "") return { min, max: min };
  return { min, max: to === "" ? undefined : Number(to) };
}

function parseAtom(text: PatternText, depth: number): RegexNode {
  if (text.take("^")) return { kind: "start" };
  if (text.take("$")) return { kind: "end" };
  if (text.take(".")) return { kind: "class", points: notLineEnds };
  if (text.take("(")) return parseGroup(text, depth);
  if (text.take("[")) return { kind: "class", points: parseClass(text) };
  if (text.take("\\b")) return wordBoundary(false);
  if (text.take("\\B")) return wordBoundary(true);
  if (text.take("\\")) return { kind: "class", points: parseEscape(text, "outside") };
  return { kind: "class", points: codePoint(text.next()) };
}

function parseGroup(text: PatternText, depth: number): RegexNode {
  const around = text.match(/\?(<?)([=!])/y);
  const isPlain = around !== undefined || text.take("?:") || text.match(/\?<[^>]*>/y) !== undefined;
  if (!isPlain && text.startsWith("?")) {
    throw new UnsupportedTextError("has a group with modifiers, which is not supported");
  }
  const item = parseChoice(text, depth + 1);
  text.take(")");
  if (around === undefined) return item;
  return { kind: around[1] === "<" ? "behind" : "ahead", item, negated: around[2] === "!" };
}

/** Between a word character and something else, in either order; negated: between two alike. */
function wordBoundary(negated: boolean): RegexNode {
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
