import { alphabetOf, symbolsWithin } from "./alphabet.ts";
import { type Automaton, explore, follow } from "./automaton.ts";
import type { Budget } from "./budget.ts";
import { beyondBasic } from "./code-points.ts";
import { minimise } from "./minimise.ts";
import { parseRegex } from "./parse-regex.ts";
import { Recent } from "./recent.ts";
import { automatonOfRegex } from "./regex-automaton.ts";

/**
 * The texts in which an ECMA-262 pattern is found somewhere. Throws UnsupportedTextError and
 * TooLargeError.
 */
export function automatonOfPattern(source: string, budget: Budget): Automaton {
  return recent.get(source, () => {
    const { root, unicode } = parseRegex(source);
    const found = automatonOfRegex(root, budget);
    return unicode ? found : readingUnits(found, budget);
  });
}

const recent = new Recent<Automaton>(200);

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
