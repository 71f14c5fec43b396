import type { Expression, RuleSink } from "../expression.ts";
import type { NumberConstraints } from "../scalars.ts";
import { type Automaton, combine, isEmpty } from "./automaton.ts";
import { Budget, UnsupportedTextError } from "./budget.ts";
import type { CodePoints } from "./code-points.ts";
import { decimalOf, power } from "./decimal.ts";
import { decimalsBetween, multiplesOf } from "./digit-automata.ts";
import { graphTerm } from "./graph-expression.ts";
import { termsOf } from "./json-string-expression.ts";
import { minimise } from "./minimise.ts";
import { type NumberShape, numberShape } from "./number-shape.ts";
import { refusingAt } from "./refusing-at.ts";
import { StateGraph } from "./state-graph.ts";
import type { Term, Terms } from "./terms.ts";

/** A multiple takes a rule for each remainder and each number of digits. */
const MULTIPLE_STATES_MAX = 1_500;

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
    if (from === -to) {
      // Zero may have a sign here: it is read as zero, and saves a second set of rules.
      const either = writer.write(0n, to);
      if (either !== undefined) {
        options.push(terms.sequence([terms.repeat(terms.literal("-"), 0, 1), either]));
      }
    } else {
      const negative = writer.write(to < 0n ? -to : 1n, -from);
      if (negative !== undefined) options.push(terms.sequence([terms.literal("-"), negative]));
      const positive = writer.write(from > 0n ? from : 0n, to);
      if (positive !== undefined) options.push(positive);
    }
    for (const sign of shape.exponents) options.push(exponentTerm(sign, terms));
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
  if (multipleOf === undefined) return true;
  const number = decimalOf(value);
  const step = decimalOf(multipleOf);
  return (number.digits * power(step.scale)) % (step.digits * power(number.scale)) === 0n;
}

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
    const automaton = this.automaton(from, to);
    if (isEmpty(automaton)) return undefined;
    const digit = (points: CodePoints): Term => terms.points(points);
    const graph = StateGraph.of(automaton, terms, digit, terms.empty);
    return graphTerm(graph, terms, this.sink, "digits");
  }

  private automaton(from: bigint, to: bigint): Automaton {
    const { modulus, places } = this.shape;
    const range = minimise(decimalsBetween({ from, to, places }, this.budget));
    if (modulus === 1n) return range;
    // Below the first multiple there is only zero.
    if (modulus > to) return minimise(decimalsBetween({ from, to: 0n, places }, this.budget));
    const multiples = minimise(multiplesOf(Number(modulus), places, this.budget));
    const both = minimise(combine(range, multiples, "and", this.budget));
    if (both.size > MULTIPLE_STATES_MAX) {
      throw new UnsupportedTextError(
        "takes too many states; use a rounder number or closer bounds",
      );
    }
    return both;
  }
}

/** What is far away or very small, as JSON.stringify writes it: `1.5e+21`, `1e-7`. Never zero or infinite. */
function exponentTerm(sign: "" | "-", terms: Terms): Term {
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
    terms.literal(sign),
    leading,
    terms.repeat(fraction, 0, 1),
    letter,
    terms.repeat(plusOrMinus, 0, 1),
    terms.repeat(digit, 1, 2),
  ]);
}
