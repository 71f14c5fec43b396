import { LRUCache } from "lru-cache";
import type { Expression, RuleSink } from "../expression.ts";
import type { NumberConstraints } from "../scalar-constraints.ts";
import { type Automaton, combineAutomata, isEmptyAutomaton } from "./automaton.ts";
import { Budget, UnsupportedConstructError } from "./budget.ts";
import type { CodePoints } from "./code-points.ts";
import { getExpressionBuilder } from "./compile-json-string.ts";
import { isMultipleOf, powerOfTen } from "./decimal.ts";
import { buildMultiplesAutomaton, buildRangeAutomaton } from "./digit-automata.ts";
import type { ExpressionBuilder, InternedExpression } from "./expression-builder.ts";
import { buildLiteralAutomaton } from "./literal-automaton.ts";
import { minimise } from "./minimise.ts";
import { deriveNumberSyntax, type NumberSyntax } from "./number-syntax.ts";
import { refuseOnError } from "./refuse-on-error.ts";
import { StateGraph } from "./state-graph.ts";
import { writeGraph } from "./write-graph.ts";

/**
 * The approximate number of automaton states, and so of grammar rules, to which the multiples of a number are limited.
 * Each rule has up to ten alternatives.
 */
const MULTIPLE_STATES = 500;
/** If the allowed range contains fewer multiples of `multipleOf` than this, the grammar lists each of them. */
const LISTED_MAX = 200n;

/**
 * Compiles the JSON numbers that meet all constraints. Numbers have plain digits; on a side of zero that has no bound,
 * they may also have an exponent. Returns undefined if no number meets them. Refuses constraints that only numbers with
 * too many digits meet, and multiples that need too many states.
 */
export function compileNumber(
  constraints: NumberConstraints,
  sink: RuleSink,
): Expression | undefined {
  return refuseOnError(constraints, () => {
    const syntax = deriveNumberSyntax(constraints);
    if (syntax === undefined) return undefined;
    const { from, to } = syntax;
    const builder = getExpressionBuilder(sink);
    const writer = new SignedRangeWriter(syntax, builder, sink);
    const options: InternedExpression[] = [];
    // The positive and the negative numbers can share their rules, unless only one side of zero allows exponents.
    if (from === -to && syntax.exponents.length !== 1) {
      // The grammar may produce `-0`, which parsers read as zero. To exclude it, negative numbers would need rules of
      // their own.
      const unsigned = writer.write(0n, to);
      const both = [unsigned, syntax.exponents.length > 0 ? writeExponent(builder) : undefined];
      const written = builder.choice(both.filter((term) => term !== undefined));
      if (unsigned !== undefined) {
        options.push(builder.sequence([builder.repeat(builder.literal("-"), 0, 1), written]));
      }
    } else {
      const minus = (term: InternedExpression) => builder.sequence([builder.literal("-"), term]);
      const negative = writer.write(to < 0n ? -to : 1n, -from);
      if (negative !== undefined) options.push(minus(negative));
      const positive = writer.write(from > 0n ? from : 0n, to);
      if (positive !== undefined) options.push(positive);
      if (syntax.exponents.includes("-")) options.push(minus(writeExponent(builder)));
      if (syntax.exponents.includes("")) options.push(writeExponent(builder));
    }
    if (options.length > 0) return builder.choice(options).expression;
    if (syntax.isComplete) return undefined;
    throw new UnsupportedConstructError(
      "allows only numbers with more digits than Berth generates",
    );
  });
}

/** Returns true if a number meets all constraints; multipleOf compares the printed decimals. */
export function allowsNumber(constraints: NumberConstraints, value: number): boolean {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = constraints;
  if (!Number.isFinite(value)) return false;
  if (constraints.integer && !Number.isInteger(value)) return false;
  if (minimum !== undefined && value < minimum) return false;
  if (maximum !== undefined && value > maximum) return false;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return false;
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum) return false;
  return multipleOf === undefined || isMultipleOf(value, multipleOf);
}

const automatonCache = new LRUCache<string, Automaton>({ max: 100 });

/** Builds the grammar expressions for numbers on one side of zero, without their sign. */
class SignedRangeWriter {
  private readonly syntax: NumberSyntax;
  private readonly builder: ExpressionBuilder;
  private readonly sink: RuleSink;
  private readonly budget = new Budget();

  constructor(syntax: NumberSyntax, builder: ExpressionBuilder, sink: RuleSink) {
    this.syntax = syntax;
    this.builder = builder;
    this.sink = sink;
  }

  /**
   * Returns an expression that matches the allowed unsigned numbers from `from` to `to`, both inclusive and in units of
   * the last decimal place; undefined if no number in this range is allowed.
   */
  write(from: bigint, to: bigint): InternedExpression | undefined {
    const { builder } = this;
    if (from > to || (from > 0n && this.syntax.modulus > to)) return undefined;
    const { places, modulus } = this.syntax;
    const key = `${from} ${to} ${places} ${modulus}`;
    const automaton = automatonCache.get(key) ?? this.buildAutomaton(from, to);
    automatonCache.set(key, automaton);
    if (isEmptyAutomaton(automaton)) return undefined;
    const digit = (points: CodePoints): InternedExpression => builder.characterClass(points);
    const graph = StateGraph.fromAutomaton(automaton, builder, digit, builder.empty);
    return writeGraph(graph, builder, this.sink, "digits");
  }

  private buildAutomaton(from: bigint, to: bigint): Automaton {
    const { modulus, places } = this.syntax;
    const { budget } = this;
    if (modulus === 1n) return minimise(buildRangeAutomaton({ from, to, places }, budget));
    // If the modulus is larger than `to`, zero is the only multiple in the range.
    if (modulus > to) return minimise(buildRangeAutomaton({ from, to: 0n, places }, budget));
    if ((to - from) / modulus < LISTED_MAX) {
      return buildLiteralAutomaton(listMultiples(from, to, modulus, places), budget);
    }
    const multiples = minimise(buildMultiplesAutomaton(Number(modulus), places, budget));
    // The automaton has a state for each remainder at each number of digits, so the number of digits is limited.
    const digits = Math.max(
      String(modulus).length + 2,
      String(from).length + 2,
      Math.floor(MULTIPLE_STATES / multiples.size),
    );
    const most = powerOfTen(digits) - 1n;
    const range = buildRangeAutomaton({ from, to: to < most ? to : most, places }, budget);
    return minimise(combineAutomata(minimise(range), multiples, "and", budget));
  }
}

function listMultiples(from: bigint, to: bigint, modulus: bigint, places: number): string[] {
  const texts: string[] = [];
  for (let units = ((from + modulus - 1n) / modulus) * modulus; units <= to; units += modulus) {
    const digits = String(units).padStart(places + 1, "0");
    const whole = digits.slice(0, digits.length - places);
    const fraction = digits.slice(digits.length - places).replace(/0+$/, "");
    texts.push(fraction === "" ? whole : `${whole}.${fraction}`);
  }
  return texts;
}

/**
 * Returns a grammar of numbers in exponential notation as JSON.stringify writes them, such as `1.5e+21` and `1e-7`. The
 * short exponent keeps each number finite and different from zero.
 */
function writeExponent(builder: ExpressionBuilder): InternedExpression {
  const digit = builder.characterClass([[0x30, 0x39]]);
  const leading = builder.characterClass([[0x31, 0x39]]);
  const fraction = builder.sequence([builder.literal("."), builder.repeat(digit, 1, 16)]);
  const letter = builder.characterClass([
    [0x45, 0x45],
    [0x65, 0x65],
  ]);
  const plusOrMinus = builder.characterClass([
    [0x2b, 0x2b],
    [0x2d, 0x2d],
  ]);
  return builder.sequence([
    leading,
    builder.repeat(fraction, 0, 1),
    letter,
    builder.repeat(plusOrMinus, 0, 1),
    builder.repeat(digit, 1, 2),
  ]);
}
