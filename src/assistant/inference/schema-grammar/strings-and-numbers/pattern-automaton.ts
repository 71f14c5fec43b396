import { LRUCache } from "lru-cache";
import { buildAlphabet, mapSymbols } from "./alphabet.ts";
import { type Automaton, exploreStates, nextState } from "./automaton.ts";
import type { Budget } from "./budget.ts";
import { supplementaryCodePoints } from "./code-points.ts";
import { minimise } from "./minimise.ts";
import { parseRegex } from "./parse-regex.ts";
import { buildRegexAutomaton } from "./regex-automaton.ts";

/**
 * Returns the automaton of the texts in which an ECMA-262 pattern matches somewhere. Throws
 * UnsupportedConstructError and TooLargeError.
 */
export function getPatternAutomaton(source: string, budget: Budget): Automaton {
  return automatonCache.memo(source, { context: budget });
}

const automatonCache = new LRUCache<string, Automaton, Budget>({
  max: 200,
  memoMethod: (source, _previous, { context: budget }) => {
    const { root, unicode } = parseRegex(source);
    const automaton = buildRegexAutomaton(root, budget);
    return unicode ? automaton : readSurrogatePairs(automaton, budget);
  },
});

/**
 * Converts `units`, an automaton over UTF-16 units (of a pattern without the flag `u`), to an automaton over
 * characters. In `units`, the symbol of the characters past U+FFFF means any surrogate; the parser refuses patterns
 * that distinguish surrogates. A character past U+FFFF consists of two surrogates, so it takes two steps of `units`.
 */
function readSurrogatePairs(units: Automaton, budget: Budget): Automaton {
  const alphabet = buildAlphabet([...units.alphabet, supplementaryCodePoints]);
  const within = mapSymbols(alphabet, units.alphabet);
  return minimise(
    exploreStates<number>({
      alphabet,
      budget,
      start: 0,
      key: (state) => state,
      step: (state, symbol) => {
        const column = within[symbol] ?? -1;
        const once = nextState(units, state, column);
        const isPair = (alphabet[symbol]?.[0]?.[0] ?? 0) > 0xffff;
        const target = isPair ? nextState(units, once, column) : once;
        return target < 0 ? undefined : target;
      },
      accepts: (state) => units.accepting[state] === 1,
    }),
  );
}
