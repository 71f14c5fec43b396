import { buildAlphabet } from "./alphabet.ts";
import { type Automaton, combineAutomata, exploreStates } from "./automaton.ts";
import type { Budget } from "./budget.ts";
import { minimise } from "./minimise.ts";

/** A range of lengths in code points, inclusive. */
export interface LengthRange {
  readonly min: number;
  readonly max: number | undefined;
}

/**
 * The approximate maximum number of states of the product of a language's automaton and a length automaton. Each state
 * may need a grammar rule.
 */
const PRODUCT_STATES_MAX = 8_000;

function buildLengthAutomaton({ min, max }: LengthRange, budget: Budget): Automaton {
  return exploreStates<number>({
    alphabet: buildAlphabet([]),
    budget,
    start: 0,
    key: (length) => length,
    step: (length) => {
      if (length < min) return length + 1;
      if (max === undefined) return length;
      return length < max ? length + 1 : undefined;
    },
    accepts: (length) => length >= min && (max === undefined || length <= max),
  });
}

/**
 * Restricts the language to texts whose length is in `range`. If the maximum needs too many states, a smaller one is
 * used. That never makes the language empty: a text that is longer than `min` by at least the number of states contains
 * a loop that can be removed, so a shorter text exists.
 */
export function restrictLength(language: Automaton, range: LengthRange, budget: Budget): Automaton {
  if (range.min === 0 && range.max === undefined) return language;
  const { shortest, longest } = measureLengths(language);
  const min = range.min > shortest ? range.min : 0;
  let max = range.max === undefined || longest <= range.max ? undefined : range.max;
  if (min === 0 && max === undefined) return language;
  if (max !== undefined) {
    const affordable = Math.floor(PRODUCT_STATES_MAX / language.size);
    max = Math.min(max, Math.max(affordable, min + language.size));
  }
  return minimise(
    combineAutomata(language, buildLengthAutomaton({ min, max }, budget), "and", budget),
  );
}

/** Returns the lengths of the shortest and the longest text; `longest` is infinite if there is a loop. */
function measureLengths(automaton: Automaton): { shortest: number; longest: number } {
  const symbols = automaton.alphabet.length;
  let layer = new Set([0]);
  let shortest = Number.POSITIVE_INFINITY;
  let longest = 0;
  // A minimal automaton has no dead states, so a walk with as many steps as states contains a loop.
  for (let length = 0; layer.size > 0; length += 1) {
    if (length >= automaton.size) return { shortest, longest: Number.POSITIVE_INFINITY };
    const next = new Set<number>();
    for (const state of layer) {
      if (automaton.accepting[state] === 1) {
        shortest = Math.min(shortest, length);
        longest = length;
      }
      for (let symbol = 0; symbol < symbols; symbol += 1) {
        const target = automaton.next[state * symbols + symbol] ?? -1;
        if (target >= 0) next.add(target);
      }
    }
    layer = next;
  }
  return { shortest, longest };
}
