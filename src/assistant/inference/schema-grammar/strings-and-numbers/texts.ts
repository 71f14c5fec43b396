import { alphabetOf, symbolFinder } from "./alphabet.ts";
import { type Automaton, explore } from "./automaton.ts";
import type { Budget } from "./budget.ts";
import { codePointsOf } from "./code-points.ts";
import { minimise } from "./minimise.ts";

/** Exactly these texts. One that holds a lone surrogate is none that a JSON text can hold, and is left out. */
export function automatonOfTexts(texts: readonly string[], budget: Budget): Automaton {
  const root: Branch = { ends: false, symbols: new Map(), number: 0 };
  const wanted = texts.filter((text) => !/\p{Surrogate}/u.test(text));
  budget.spend(wanted.reduce((total, text) => total + text.length, 0));
  const characters = [...new Set(wanted.join(""))];
  const alphabet = alphabetOf(characters.map((character) => codePointsOf(character)));
  const find = symbolFinder(alphabet);
  let count = 0;
  for (const text of wanted) {
    let branch = root;
    for (const character of text) {
      const symbol = find(character.codePointAt(0) ?? 0);
      let next = branch.symbols.get(symbol);
      if (next === undefined) {
        count += 1;
        next = { ends: false, symbols: new Map(), number: count };
        branch.symbols.set(symbol, next);
      }
      branch = next;
    }
    branch.ends = true;
  }
  return minimise(
    explore<Branch>({
      alphabet,
      budget,
      start: root,
      key: (branch) => branch.number,
      step: (branch, symbol) => branch.symbols.get(symbol),
      accepts: (branch) => branch.ends,
    }),
  );
}

interface Branch {
  ends: boolean;
  readonly symbols: Map<number, Branch>;
  readonly number: number;
}
