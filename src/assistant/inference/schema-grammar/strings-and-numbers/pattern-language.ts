import { alphabetOf, symbolsWithin } from "./alphabet.ts";
import { type Automaton, explore, follow } from "./automaton.ts";
import { type Budget, UnsupportedTextError } from "./budget.ts";
import { beyondBasic } from "./code-points.ts";
import { minimise } from "./minimise.ts";
import { parseRegex } from "./parse-regex.ts";
import { automatonOfRegex } from "./regex-automaton.ts";

/**
 * The texts in which an ECMA-262 pattern is found somewhere. Throws UnsupportedTextError and
 * TooLargeError.
 */
export function automatonOfPattern(source: string, budget: Budget): Automaton {
  const before = known.get(source);
  if (before instanceof Error) throw before;
  if (before !== undefined) return before;
  const result = attempt(source, budget);
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(source, result);
  if (result instanceof Error) throw result;
  return result;
}

/** One schema asks about the same pattern often, and many requests have the same schema. */
const KNOWN_MAX = 200;
const known = new Map<string, Automaton | Error>();

function attempt(source: string, budget: Budget): Automaton | Error {
  try {
    const { root, unicode } = parseRegex(source);
    const found = automatonOfRegex(root, budget);
    return unicode ? found : readingUnits(found, budget);
  } catch (error) {
    if (error instanceof UnsupportedTextError) return error;
    throw error;
  }
}

/**
 * Without the flag `u`, a pattern reads units of UTF-16. No set of such a pattern tells surrogates apart
 * (the parser sees to it), so in its automaton the characters past U+FFFF stand for one surrogate, and a
 * real character of that kind is read in two steps.
 */
function readingUnits(units: Automaton, budget: Budget): Automaton {
  const alphabet = alphabetOf([...units.alphabet, beyondBasic]);
  const within = symbolsWithin(alphabet, units.alphabet);
  return minimise(
    explore<number>({
      alphabet,
      budget,
      start: 0,
      key: (state) => state,
      step: (state, symbol) => {
        const column = within[symbol] ?? -1;
        const once = follow(units, state, column);
        const isPair = (alphabet[symbol]?.[0]?.[0] ?? 0) > 0xffff;
        const target = isPair ? follow(units, once, column) : once;
        return target < 0 ? undefined : target;
      },
      accepts: (state) => units.accepting[state] === 1,
    }),
  );
}
