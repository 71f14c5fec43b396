import type { NumberConstraints } from "../scalar-constraints.ts";
import { UnsupportedConstructError } from "./budget.ts";
import {
  countWholeDigits,
  type Decimal,
  nextDouble,
  powerOfTen,
  scaleDecimal,
  toDecimal,
} from "./decimal.ts";
import type { UnitRange } from "./digit-automata.ts";

/**
 * So many digits of one number are kept apart when it is read into a double. Bounds hold beyond that too:
 * reading never turns the smaller of two numbers into the larger.
 */
const EXACT_DIGITS = 15;
/** Every integer of so many digits is one of 64 bits. */
const INTEGER_DIGITS = 18;
/** Bounds so far out, such as the largest double, bind nothing that is produced, exponents included. */
const IGNORED_BOUND_MIN = 1e120;
/** As many digits before the point are produced to reach up to a bound; without need, none. */
const BOUND_DIGITS_MAX = 25;
/** As many as a bound of 10^-40 takes, and some to differ from it. */
const PLACES_MAX = 60;

/** How the numbers of a set of constraints are written; the range is one of signed units. */
export interface NumberSyntax extends UnitRange {
  /** In units; 1 where every number will do. */
  readonly modulus: bigint;
  /** The signs in front of which a number with an exponent may stand. */
  readonly exponents: readonly ("" | "-")[];
  /** Whether all numbers that meet the constraints are in the range, so that none in it is none at all. */
  readonly isComplete: boolean;
}

interface Bound {
  readonly value: number;
  readonly decimal: Decimal;
  readonly exclusive: boolean;
}

/** Undefined where the bounds leave nothing. */
export function deriveNumberSyntax(constraints: NumberConstraints): NumberSyntax | undefined {
  const lowest = tighterBound(constraints.minimum, constraints.exclusiveMinimum, Math.max);
  const highest = tighterBound(constraints.maximum, constraints.exclusiveMaximum, Math.min);
  const low = lowest !== undefined && lowest.value > -IGNORED_BOUND_MIN ? lowest : undefined;
  const high = highest !== undefined && highest.value < IGNORED_BOUND_MIN ? highest : undefined;
  if (low !== undefined && high !== undefined) {
    if (low.value > high.value) return undefined;
    if (low.value === high.value && (low.exclusive || high.exclusive)) return undefined;
  }
  const step = constraints.multipleOf === undefined ? undefined : toDecimal(constraints.multipleOf);
  const places = countPlaces(constraints, step, [low, high]);
  const wantedFrom = low === undefined ? undefined : findFirstUnit(low, places, "up");
  const wantedTo = high === undefined ? undefined : findFirstUnit(high, places, "down");
  const largestUnits = (inner: Bound | undefined, outer: Bound | undefined) =>
    computeLargestUnits(constraints, step, places, inner, outer);
  // What is nearer to zero on each side decides how many digits the numbers beyond it need.
  const least = -largestUnits(high !== undefined && high.value < 0 ? high : undefined, low);
  const greatest = largestUnits(low !== undefined && low.value > 0 ? low : undefined, high);
  const from = wantedFrom === undefined || wantedFrom < least ? least : wantedFrom;
  const to = wantedTo === undefined || wantedTo > greatest ? greatest : wantedTo;
  const isStepped = constraints.integer || step !== undefined;
  const exponents: ("" | "-")[] = [];
  if (!isStepped && low === undefined && (high?.value ?? 0) >= 0) exponents.push("-");
  if (!isStepped && high === undefined && (low?.value ?? 0) <= 0) exponents.push("");
  return {
    from,
    to,
    places,
    modulus: step === undefined ? 1n : computeModulus(step, places),
    exponents,
    isComplete:
      isStepped && from === wantedFrom && to === wantedTo && !isRounded(low) && !isRounded(high),
  };
}

function tighterBound(
  inclusive: number | undefined,
  exclusive: number | undefined,
  pick: (...values: number[]) => number,
): Bound | undefined {
  if (inclusive === undefined && exclusive === undefined) return undefined;
  const value = pick(...[inclusive, exclusive].filter((one) => one !== undefined));
  return { value, decimal: toDecimal(value), exclusive: value === exclusive };
}

/** An exclusive bound past 2^53 is taken one double further, and what lies between is not looked at. */
function isRounded(bound: Bound | undefined): boolean {
  return bound !== undefined && bound.exclusive && Math.abs(bound.value) >= 2 ** 53;
}

function countPlaces(
  constraints: NumberConstraints,
  step: Decimal | undefined,
  bounds: readonly (Bound | undefined)[],
): number {
  if (constraints.integer) return 0;
  if (step !== undefined) {
    if (step.scale <= PLACES_MAX) return step.scale;
    throw new UnsupportedConstructError(`has more than ${PLACES_MAX} places`);
  }
  const decimals = bounds.flatMap((bound) => (bound === undefined ? [] : [bound.decimal]));
  const whole = Math.max(1, ...decimals.map(countWholeDigits));
  const usual = Math.max(1, EXACT_DIGITS - whole);
  const wanted = Math.max(...decimals.map(({ scale }) => scale), 0);
  return wanted <= usual ? usual : Math.min(PLACES_MAX, wanted + 2);
}

/** The first unit within a bound. */
function findFirstUnit(bound: Bound, places: number, rounding: "up" | "down"): bigint {
  const { value, decimal, exclusive } = bound;
  if (!exclusive) return scaleDecimal(decimal, places, rounding);
  const isApart = Math.abs(value) < 2 ** 53 && countWholeDigits(decimal) + places <= EXACT_DIGITS;
  if (value !== 0 && places > 0 && !isApart) {
    // A text this side of the bound could be read as the bound itself; not one as far as the next double.
    return scaleDecimal(toDecimal(nextDouble(value, rounding)), places, rounding);
  }
  if (Math.abs(value) >= 2 ** 53) {
    return scaleDecimal(toDecimal(nextDouble(value, rounding)), places, rounding);
  }
  const opposite = rounding === "up" ? "down" : "up";
  return scaleDecimal(decimal, places, opposite) + (rounding === "up" ? 1n : -1n);
}

/** How far from zero numbers go on one side. */
function computeLargestUnits(
  constraints: NumberConstraints,
  step: Decimal | undefined,
  places: number,
  inner: Bound | undefined,
  outer: Bound | undefined,
): bigint {
  const digitsOf = (bound: Bound | undefined): number =>
    bound === undefined ? 0 : countWholeDigits(bound.decimal);
  const usual = constraints.integer ? INTEGER_DIGITS : EXACT_DIGITS;
  const outerDigits = digitsOf(outer);
  const digits = Math.max(
    usual,
    inner === undefined ? 0 : digitsOf(inner) + 2,
    outerDigits <= BOUND_DIGITS_MAX ? outerDigits : 0,
  );
  if (step === undefined) return powerOfTen(digits + places) - 1n;
  // A multiple is one only if it is read exactly.
  return powerOfTen(EXACT_DIGITS) - 1n;
}

/** Of how many units a number is a multiple if it is one of the step. */
function computeModulus(step: Decimal, places: number): bigint {
  const units = step.digits * powerOfTen(places);
  return units / greatestCommonDivisor(units, powerOfTen(step.scale));
}

function greatestCommonDivisor(left: bigint, right: bigint): bigint {
  return right === 0n ? left : greatestCommonDivisor(right, left % right);
}
