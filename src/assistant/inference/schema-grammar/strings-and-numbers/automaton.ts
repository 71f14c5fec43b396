import { type Alphabet, buildAlphabet, createSymbolFinder, mapSymbols } from "./alphabet.ts";
import { Budget, TooLargeError } from "./budget.ts";

/** A deterministic automaton over texts. State 0 is the start. */
export interface Automaton {
  readonly alphabet: Alphabet;
  readonly size: number;
  /** The transitions: `next[state * alphabet.length + symbol]`; -1 if there is none. */
  readonly next: Int32Array;
  readonly accepting: Uint8Array;
}

/**
 * The maximum number of states before minimisation: far more than a minimised automaton in a grammar may have, but few
 * enough to be built without noticeable delay.
 */
export const STATES_MAX = 20_000;

/**
 * Builds an automaton by exploring states from the start. `key` identifies a state; `step` returns the next
 * state, or undefined if there is none. Throws TooLargeError.
 */
export function exploreStates<State>(machine: {
  readonly alphabet: Alphabet;
  readonly start: State;
  readonly key: (state: State) => string | number;
  readonly step: (state: State, symbol: number) => State | undefined;
  readonly accepts: (state: State) => boolean;
  readonly budget: Budget;
  readonly statesMax?: number;
}): Automaton {
  const { alphabet, budget, statesMax = STATES_MAX } = machine;
  const found = new Map<string | number, number>([[machine.key(machine.start), 0]]);
  const states: State[] = [machine.start];
  const next: number[] = [];
  // The loop also visits the states that it adds.
  for (const state of states) {
    for (let symbol = 0; symbol < alphabet.length; symbol += 1) {
      budget.spend(1);
      const target = machine.step(state, symbol);
      if (target === undefined) {
        next.push(-1);
        continue;
      }
      const key = machine.key(target);
      let number = found.get(key);
      if (number === undefined) {
        number = states.length;
        if (number >= statesMax) throw new TooLargeError();
        found.set(key, number);
        states.push(target);
      }
      next.push(number);
    }
  }
  return {
    alphabet,
    size: states.length,
    next: Int32Array.from(next),
    accepting: Uint8Array.from(states, (state) => (machine.accepts(state) ? 1 : 0)),
  };
}

/** Combines two languages: intersection (`and`), union (`or`), or difference (`minus`). */
export function combineAutomata(
  left: Automaton,
  right: Automaton,
  mode: "and" | "or" | "minus",
  budget: Budget,
): Automaton {
  const alphabet = buildAlphabet([...left.alphabet, ...right.alphabet]);
  const leftSymbols = mapSymbols(alphabet, left.alphabet);
  const rightSymbols = mapSymbols(alphabet, right.alphabet);
  // Encodes a pair of states as one number; 0 in either half means that there is no state.
  const width = right.size + 1;
  return exploreStates<number>({
    alphabet,
    budget,
    start: width + 1,
    key: (pair) => pair,
    step: (pair, symbol) => {
      const a = nextState(left, Math.floor(pair / width) - 1, leftSymbols[symbol] ?? -1);
      const b = nextState(right, (pair % width) - 1, rightSymbols[symbol] ?? -1);
      if (a < 0 && (mode !== "or" || b < 0)) return undefined;
      if (b < 0 && mode === "and") return undefined;
      return (a + 1) * width + b + 1;
    },
    accepts: (pair) => {
      const a = left.accepting[Math.floor(pair / width) - 1] === 1;
      const b = right.accepting[(pair % width) - 1] === 1;
      if (mode === "and") return a && b;
      return mode === "or" ? a || b : a && !b;
    },
  });
}

export function accepts(automaton: Automaton, text: string): boolean {
  const find = createSymbolFinder(automaton.alphabet);
  let state = 0;
  for (const character of text) {
    state = nextState(automaton, state, find(character.codePointAt(0) ?? 0));
    if (state < 0) return false;
  }
  return automaton.accepting[state] === 1;
}

export function nextState(automaton: Automaton, state: number, symbol: number): number {
  if (state < 0 || symbol < 0) return -1;
  return automaton.next[state * automaton.alphabet.length + symbol] ?? -1;
}

/** Creates an automaton that accepts every text. */
export function createUniversalAutomaton(): Automaton {
  const alphabet = buildAlphabet([]);
  return { alphabet, size: 1, next: Int32Array.of(0), accepting: Uint8Array.of(1) };
}

/**
 * Returns true if the automaton accepts no text. All states of an explored automaton are reachable, so the automaton
 * accepts no text if none of its states is accepting.
 */
export function isEmptyAutomaton(automaton: Automaton): boolean {
  return !automaton.accepting.includes(1);
}
