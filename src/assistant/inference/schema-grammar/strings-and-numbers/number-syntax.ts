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
 * Two different decimals with at most this many digits are also different as doubles. Longer decimals may be rounded,
 * but never beyond a `minimum` or `maximum`, because the conversion to a double is monotonic.
 */
const EXACT_DIGITS = 15;
/** The number of digits up to which every integer fits into 64 bits. */
const INTEGER_DIGITS = 18;
/** Bounds larger than this, such as the largest double, have no effect on generated numbers, even with exponents. */
const IGNORED_BOUND_MIN = 1e120;
/**
 * If a bound has more digits before the decimal point than this, Berth does not generate numbers with that many digits.
 */
const BOUND_DIGITS_MAX = 25;
/**
 * The maximum number of decimal places. It suffices for a `minimum` of 10^-40 and for numbers just above this minimum.
 */
const PLACES_MAX = 60;

/**
 * The syntax of the numbers that meet a set of constraints. All numbers are multiples of a unit, the smallest decimal
 * place. The range is given in units, and may be negative.
 */
export interface NumberSyntax extends UnitRange {
  /** Every allowed number is a multiple of `modulus` times 10^-`places`. Without `multipleOf`, `modulus` is 1. */
  readonly modulus: bigint;
  /** The signs of the numbers that may be written with an exponent. */
  readonly exponents: readonly ("" | "-")[];
  /** True if the range contains all numbers that meet the constraints. */
  readonly isComplete: boolean;
}

interface Bound {
  readonly value: number;
  readonly decimal: Decimal;
  readonly exclusive: boolean;
}

/** Returns the syntax of the numbers that meet the constraints; undefined if the bounds exclude every number. */
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
  // On each side of zero, the bound nearer to zero determines how many digits the numbers beyond it need.
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

/**
 * Returns true for an exclusive bound of at least 2^53. The range then begins or ends at the next double, and lacks the
 * integers between the bound and this double.
 */
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
    throw new UnsupportedConstructError(`has more than ${PLACES_MAX} decimal places`);
  }
  const decimals = bounds.flatMap((bound) => (bound === undefined ? [] : [bound.decimal]));
  const whole = Math.max(1, ...decimals.map(countWholeDigits));
  const usual = Math.max(1, EXACT_DIGITS - whole);
  const wanted = Math.max(...decimals.map(({ scale }) => scale), 0);
  return wanted <= usual ? usual : Math.min(PLACES_MAX, wanted + 2);
}

/** Returns the number that is nearest to `bound` and still allowed by it, in units of 10^-`places`. */
function findFirstUnit(bound: Bound, places: number, rounding: "up" | "down"): bigint {
  const { value, decimal, exclusive } = bound;
  if (!exclusive) return scaleDecimal(decimal, places, rounding);
  const isApart = Math.abs(value) < 2 ** 53 && countWholeDigits(decimal) + places <= EXACT_DIGITS;
  if (value !== 0 && places > 0 && !isApart) {
    // The numbers begin at the next double, because a text between the excluded bound and the next double could be read
    // as the bound itself.
    return scaleDecimal(toDecimal(nextDouble(value, rounding)), places, rounding);
  }
  if (Math.abs(value) >= 2 ** 53) {
    return scaleDecimal(toDecimal(nextDouble(value, rounding)), places, rounding);
  }
  const opposite = rounding === "up" ? "down" : "up";
  return scaleDecimal(decimal, places, opposite) + (rounding === "up" ? 1n : -1n);
}

/**
 * Returns the largest absolute value of generated numbers on one side of zero, in units of 10^-`places`. `inner` is the
 * side's bound nearer to zero, `outer` the bound farther from zero.
 */
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
  // With `multipleOf`, each number must be exact as a double, so it has at most EXACT_DIGITS digits.
  return powerOfTen(EXACT_DIGITS) - 1n;
}

/** Returns the smallest multiple of `step` that is a whole number of units, in units of 10^-`places`. */
function computeModulus(step: Decimal, places: number): bigint {
  const units = step.digits * powerOfTen(places);
  return units / greatestCommonDivisor(units, powerOfTen(step.scale));
}

function greatestCommonDivisor(left: bigint, right: bigint): bigint {
  return right === 0n ? left : greatestCommonDivisor(right, left % right);
}
