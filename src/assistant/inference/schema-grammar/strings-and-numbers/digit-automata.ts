import { type Alphabet, buildAlphabet, createSymbolFinder } from "./alphabet.ts";
import { type Automaton, exploreStates } from "./automaton.ts";
import { type Budget, TooLargeError } from "./budget.ts";
import { toCodePoints } from "./code-points.ts";

/**
 * A range of decimals in units of the last possible place: with two places, 1.5 is 150 units. Both automata
 * of this file read unsigned digits without leading zeros, and optionally a point with one to `places`
 * digits.
 */
export interface UnitRange {
  readonly from: bigint;
  readonly to: bigint;
  readonly places: number;
}

const characters = Array.from("0123456789.-eE+");
const numberAlphabet: Alphabet = buildAlphabet(characters.map((one) => toCodePoints(one)));
const findSymbol = createSymbolFinder(numberAlphabet);
const characterBySymbol: readonly (string | undefined)[] = numberAlphabet.map((_, symbol) =>
  characters.find((one) => findSymbol(one.charCodeAt(0)) === symbol),
);

/**
 * The maximum number of states of an automaton for `multipleOf`. With more states, the grammar would be too large even
 * for numbers without minimum and maximum.
 */
const MULTIPLE_STATES_MAX = 1_500;

/** The comparison of the digits read so far with the same number of digits of a bound: below, equal or above. */
type Comparison = -1 | 0 | 1;

interface DigitState {
  readonly phase: "start" | "zero" | "whole" | "point" | "places";
  /** The number of digits read in the current `phase`. */
  readonly count: number;
  readonly low: Comparison;
  readonly high: Comparison;
}

/** Builds an automaton of the decimals from `from` to `to`. Neither bound is negative. */
export function buildRangeAutomaton(range: UnitRange, budget: Budget): Automaton {
  const low = new DigitBound(range.from, range.places);
  const high = new DigitBound(range.to, range.places);
  return exploreStates<DigitState>({
    alphabet: numberAlphabet,
    budget,
    start: { phase: "start", count: 0, low: 0, high: 0 },
    key: ({ phase, count, low: a, high: b }) => `${phase}${count},${a},${b}`,
    step: (state, symbol) => {
      const next = nextPhase(state.phase, state.count, characterBySymbol[symbol], range.places);
      if (next === undefined) return undefined;
      if (next.phase === "point") {
        const a = low.afterWhole(state.low, state.count);
        const b = high.afterWhole(state.high, state.count);
        return b > 0 || a < 0 ? undefined : { ...next, low: a, high: b };
      }
      const digit = Number(characterBySymbol[symbol]);
      const at = next.count - 1;
      const inPlaces = next.phase === "places";
      const a = low.compare(state.low, inPlaces ? low.wholeLength + at : at, digit, inPlaces);
      const b = high.compare(state.high, inPlaces ? high.wholeLength + at : at, digit, inPlaces);
      if (inPlaces && (b > 0 || a < 0)) return undefined;
      if (!inPlaces && next.count > high.wholeLength) return undefined;
      return { ...next, low: a, high: b };
    },
    accepts: ({ phase, count, low: a, high: b }) => {
      if (phase === "start" || phase === "point") return false;
      if (phase === "places") return low.isReached(a, count);
      return low.isReached(low.afterWhole(a, count), 0) && high.afterWhole(b, count) <= 0;
    },
  });
}

/**
 * Builds an automaton of the decimals that are multiples of `modulus` units. Two remainders are the same
 * state if the same digits complete both to a multiple, so that a modulus of 1,000,000 needs seven states.
 * Throws TooLargeError.
 */
export function buildMultiplesAutomaton(
  modulus: number,
  places: number,
  budget: Budget,
): Automaton {
  interface Rest {
    readonly phase: DigitState["phase"];
    readonly count: number;
    readonly rest: number;
  }
  if (modulus > 1e12) throw new TooLargeError();
  const isMultiple = ({ phase, count, rest }: Rest): boolean => {
    let units = rest;
    for (let place = phase === "places" ? count : 0; place < places; place += 1) {
      units = (units * 10) % modulus;
    }
    return units === 0;
  };
  return exploreStates<Rest>({
    alphabet: numberAlphabet,
    budget,
    statesMax: MULTIPLE_STATES_MAX,
    start: { phase: "start", count: 0, rest: 0 },
    key: ({ phase, count, rest }) =>
      `${phase}${phase === "places" ? count : ""},${getCompletionKey(rest, modulus)}`,
    step: (state, symbol) => {
      const next = nextPhase(state.phase, state.count, characterBySymbol[symbol], places);
      if (next === undefined) return undefined;
      if (next.phase === "point") return { ...next, rest: state.rest };
      budget.spend(10);
      return { ...next, rest: (state.rest * 10 + Number(characterBySymbol[symbol])) % modulus };
    },
    accepts: (state) => state.phase !== "start" && state.phase !== "point" && isMultiple(state),
  });
}

/**
 * Returns equal keys for two remainders modulo `modulus` exactly if the same further digits turn both into multiples of
 * `modulus`. For n = 0, 1, 2, ..., the key lists the n digits that turn `rest` into a multiple, or an empty item if
 * there are none. The list ends before the first n for which every remainder has such digits.
 */
function getCompletionKey(rest: number, modulus: number): string {
  const found: (number | string)[] = [];
  let shifted = rest;
  let size = 1;
  while (size < modulus) {
    const missing = (modulus - shifted) % modulus;
    found.push(missing < size ? missing : "");
    shifted = (shifted * 10) % modulus;
    size *= 10;
  }
  return `${found.join()},${shifted}`;
}

function nextPhase(
  phase: DigitState["phase"],
  count: number,
  character: string | undefined,
  places: number,
): Pick<DigitState, "phase" | "count"> | undefined {
  if (character === undefined) return undefined;
  if (character === ".") {
    return places > 0 && (phase === "zero" || phase === "whole")
      ? { phase: "point", count: 0 }
      : undefined;
  }
  if (!/[0-9]/.test(character)) return undefined;
  if (phase === "start") return { phase: character === "0" ? "zero" : "whole", count: 1 };
  if (phase === "zero") return undefined;
  if (phase === "whole") return { phase: "whole", count: count + 1 };
  return count < places ? { phase: "places", count: count + 1 } : undefined;
}

/** The digits of the minimum or maximum of a range, including the digits after the decimal point. */
class DigitBound {
  readonly wholeLength: number;
  private readonly digits: string;

  constructor(units: bigint, places: number) {
    this.digits = String(units).padStart(places + 1, "0");
    this.wholeLength = this.digits.length - places;
  }

  /** Compares the next digit with the bound's digit, unless earlier digits have decided the comparison. */
  compare(before: Comparison, at: number, digit: number, inPlaces: boolean): Comparison {
    // If the number has more digits before the decimal point than the bound, `afterWhole` compares the two by these
    // lengths.
    if (before !== 0 || (!inPlaces && at >= this.wholeLength)) return before;
    const bound = Number(this.digits[at]);
    if (digit === bound) return 0;
    return digit < bound ? -1 : 1;
  }

  /**
   * Compares a number that has `count` digits before the decimal point with this bound: the longer one is larger. With
   * equal lengths, the result is `before`, the comparison of their digits.
   */
  afterWhole(before: Comparison, count: number): Comparison {
    if (count === this.wholeLength) return before;
    return count < this.wholeLength ? -1 : 1;
  }

  /**
   * Returns true if a number with `count` decimal places is at least this minimum. `comparison` is the result of
   * comparing the number's digits with the minimum cut to `count` decimal places.
   */
  isReached(comparison: Comparison, count: number): boolean {
    if (comparison !== 0) return comparison > 0;
    return /^0*$/.test(this.digits.slice(this.wholeLength + count));
  }
}
