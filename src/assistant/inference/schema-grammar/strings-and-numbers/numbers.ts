import type { Expression, RuleSink } from "../expression.ts";
import type { NumberConstraints } from "../scalars.ts";
import { type Automaton, combine, isEmpty } from "./automaton.ts";
import { Budget, UnsupportedTextError } from "./budget.ts";
import type { CodePoints } from "./code-points.ts";
import { isMultipleOf, power } from "./decimal.ts";
import { decimalsBetween, multiplesOf } from "./digit-automata.ts";
import { graphTerm } from "./graph-expression.ts";
import { termsOf } from "./json-string-expression.ts";
import { minimise } from "./minimise.ts";
import { type NumberShape, numberShape } from "./number-shape.ts";
import { Recent } from "./recent.ts";
import { refusingAt } from "./refusing-at.ts";
import { StateGraph } from "./state-graph.ts";
import type { Term, Terms } from "./terms.ts";
import { automatonOfTexts } from "./texts.ts";

/** About how many rules multiples may take: each is ten alternatives long. */
const MULTIPLE_STATES = 500;
/** So few multiples are written one by one, whatever the modulus is. */
const LISTED_MAX = 200n;

/**
 * A JSON number that meets all constraints, in plain digits; where a side has no bound, also with an
 * exponent. Undefined where no number does. Refuses what only numbers of too many digits would meet, and
 * multiples that take too many states.
 */
export function numberExpression(
  constraints: NumberConstraints,
  sink: RuleSink,
): Expression | undefined {
  return refusingAt(constraints, () => {
    const shape = numberShape(constraints);
    if (shape === undefined) return undefined;
    const { from, to } = shape;
    const terms = termsOf(sink);
    const writer = new SideWriter(shape, terms, sink);
    const options: Term[] = [];
    // With an exponent on one side only, the sides are not alike.
    if (from === -to && shape.exponents.length !== 1) {
      // Zero may have a sign here: it is read as zero, and saves a second set of rules.
      const either = writer.write(0n, to);
      const both = [either, shape.exponents.length > 0 ? exponentTerm(terms) : undefined];
      const written = terms.choice(both.filter((term) => term !== undefined));
      if (either !== undefined) {
        options.push(terms.sequence([terms.repeat(terms.literal("-"), 0, 1), written]));
      }
    } else {
      const minus = (term: Term) => terms.sequence([terms.literal("-"), term]);
      const negative = writer.write(to < 0n ? -to : 1n, -from);
      if (negative !== undefined) options.push(minus(negative));
      const positive = writer.write(from > 0n ? from : 0n, to);
      if (positive !== undefined) options.push(positive);
      if (shape.exponents.includes("-")) options.push(minus(exponentTerm(terms)));
      if (shape.exponents.includes("")) options.push(exponentTerm(terms));
    }
    if (options.length > 0) return terms.choice(options).expression;
    if (shape.complete) return undefined;
    throw new UnsupportedTextError("leaves only numbers of more digits than are produced");
  });
}

/** Whether a number meets all constraints; multiples are of the decimals as they are printed. */
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

const recent = new Recent<Automaton>(100);

/** Writes the numbers on one side of zero. */
class SideWriter {
  private readonly shape: NumberShape;
  private readonly terms: Terms;
  private readonly sink: RuleSink;
  private readonly budget = new Budget();

  constructor(shape: NumberShape, terms: Terms, sink: RuleSink) {
    this.shape = shape;
    this.terms = terms;
    this.sink = sink;
  }

  /** Numbers without a sign, both ends included; undefined where there is none. */
  write(from: bigint, to: bigint): Term | undefined {
    const { terms } = this;
    if (from > to || (from > 0n && this.shape.modulus > to)) return undefined;
    const { places, modulus } = this.shape;
    const automaton = recent.get(`${from} ${to} ${places} ${modulus}`, () =>
      this.automaton(from, to),
    );
    if (isEmpty(automaton)) return undefined;
    const digit = (points: CodePoints): Term => terms.points(points);
    const graph = StateGraph.of(automaton, terms, digit, terms.empty);
    return graphTerm(graph, terms, this.sink, "digits");
  }

  private automaton(from: bigint, to: bigint): Automaton {
    const { modulus, places } = this.shape;
    const { budget } = this;
    if (modulus === 1n) return minimise(decimalsBetween({ from, to, places }, budget));
    // Below the first multiple there is only zero.
    if (modulus > to) return minimise(decimalsBetween({ from, to: 0n, places }, budget));
    if ((to - from) / modulus < LISTED_MAX) {
      return automatonOfTexts(multiplesBetween(from, to, modulus, places), budget);
    }
    const multiples = minimise(multiplesOf(Number(modulus), places, budget));
    // A state for each remainder after each number of digits; past some digits it is not worth it.
    const digits = Math.max(
      String(modulus).length + 2,
      String(from).length + 2,
      Math.floor(MULTIPLE_STATES / multiples.size),
    );
    const most = power(digits) - 1n;
    const range = decimalsBetween({ from, to: to < most ? to : most, places }, budget);
    return minimise(combine(minimise(range), multiples, "and", budget));
  }
}

function multiplesBetween(from: bigint, to: bigint, modulus: bigint, places: number): string[] {
  const texts: string[] = [];
  for (let units = ((from + modulus - 1n) / modulus) * modulus; units <= to; units += modulus) {
    const digits = String(units).padStart(places + 1, "0");
    const whole = digits.slice(0, digits.length - places);
    const fraction = digits.slice(digits.length - places).replace(/0+$/, "");
    texts.push(fraction === "" ? whole : `${whole}.${fraction}`);
  }
  return texts;
}

/** What is far away or very small, as JSON.stringify writes it: `1.5e+21`, `1e-7`. Never zero or infinite. */
function exponentTerm(terms: Terms): Term {
  const digit = terms.points([[0x30, 0x39]]);
  const leading = terms.points([[0x31, 0x39]]);
  const fraction = terms.sequence([terms.literal("."), terms.repeat(digit, 1, 16)]);
  const letter = terms.points([
    [0x45, 0x45],
    [0x65, 0x65],
  ]);
  const plusOrMinus = terms.points([
    [0x2b, 0x2b],
    [0x2d, 0x2d],
  ]);
  return terms.sequence([
    leading,
    terms.repeat(fraction, 0, 1),
    letter,
    terms.repeat(plusOrMinus, 0, 1),
    terms.repeat(digit, 1, 2),
  ]);
}
