import { buildAlphabet, createSymbolFinder } from "./alphabet.ts";
import { type Automaton, exploreStates } from "./automaton.ts";
import type { Budget } from "./budget.ts";
import { toCodePoints } from "./code-points.ts";
import { minimise } from "./minimise.ts";

/** Builds an automaton of exactly these texts, except those with a lone surrogate, which JSON cannot contain. */
export function buildLiteralAutomaton(texts: readonly string[], budget: Budget): Automaton {
  const root: TrieNode = { ends: false, symbols: new Map(), number: 0 };
  const wanted = texts.filter((text) => !/\p{Surrogate}/u.test(text));
  budget.spend(wanted.reduce((total, text) => total + text.length, 0));
  const characters = [...new Set(wanted.join(""))];
  const alphabet = buildAlphabet(characters.map((character) => toCodePoints(character)));
  const find = createSymbolFinder(alphabet);
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
    exploreStates<TrieNode>({
      alphabet,
      budget,
      start: root,
      key: (branch) => branch.number,
      step: (branch, symbol) => branch.symbols.get(symbol),
      accepts: (branch) => branch.ends,
    }),
  );
}

interface TrieNode {
  ends: boolean;
  readonly symbols: Map<number, TrieNode>;
  readonly number: number;
}
