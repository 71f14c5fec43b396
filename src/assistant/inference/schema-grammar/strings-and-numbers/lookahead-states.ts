import { type Alphabet, mapSymbols } from "./alphabet.ts";
import { type Automaton, nextState } from "./automaton.ts";
import { TooLargeError } from "./budget.ts";

/**
 * Tracks pending lookaheads, all of which the rest of the text must satisfy. A pending lookahead is a state of its
 * automaton. Sets of pending lookaheads are numbered; 0 is the empty set.
 */
export class LookaheadStates {
  private readonly automata: readonly Automaton[];
  private readonly symbols: readonly Int32Array[];
  private readonly limit: number;
  /**
   * Flags by automaton and state: 1 if the automaton accepts every text from this state, so that the lookahead is
   * satisfied.
   */
  private readonly satisfied: readonly Uint8Array[];
  private readonly sets: (readonly LookaheadState[])[] = [[]];
  private readonly numberByKey = new Map<string, number>([["", 0]]);
  private readonly advanceCache = new Map<string, number | undefined>();

  constructor(automata: readonly Automaton[], alphabet: Alphabet, limit: number) {
    this.automata = automata;
    this.symbols = automata.map((automaton) => mapSymbols(alphabet, automaton.alphabet));
    this.limit = limit;
    this.satisfied = automata.map((automaton) => findSatisfiedStates(automaton));
  }

  /** Returns a set of pending lookaheads: those of `set`, and one more whose automaton is in its start state. */
  add(set: number, automaton: number): number {
    return this.numberOfSet([...(this.sets[set] ?? []), { automaton, state: 0 }]);
  }

  /** Returns the set of pending lookaheads after a symbol; undefined if the symbol violates a lookahead. */
  advance(set: number, symbol: number): number | undefined {
    if (set === 0) return 0;
    const key = `${set}/${symbol}`;
    if (this.advanceCache.has(key)) return this.advanceCache.get(key);
    const moved = (this.sets[set] ?? []).map(({ automaton, state }) => ({
      automaton,
      state: this.follow(automaton, state, symbol),
    }));
    const result = moved.some(({ state }) => state < 0) ? undefined : this.numberOfSet(moved);
    this.advanceCache.set(key, result);
    return result;
  }

  /** Returns true if the text may end while the lookaheads of this set are pending. */
  canEnd(set: number): boolean {
    return (this.sets[set] ?? []).every(
      ({ automaton, state }) => this.automata[automaton]?.accepting[state] === 1,
    );
  }

  private follow(automaton: number, state: number, symbol: number): number {
    const machine = this.automata[automaton];
    if (machine === undefined) return -1;
    return nextState(machine, state, this.symbols[automaton]?.[symbol] ?? -1);
  }

  private numberOfSet(states: readonly LookaheadState[]): number {
    const open = new Map<string, LookaheadState>();
    for (const lookahead of states) {
      const { automaton, state } = lookahead;
      if (this.satisfied[automaton]?.[state] !== 1) open.set(`${automaton}:${state}`, lookahead);
    }
    const key = [...open.keys()].toSorted().join();
    let number = this.numberByKey.get(key);
    if (number === undefined) {
      number = this.sets.length;
      if (number >= this.limit) throw new TooLargeError();
      this.numberByKey.set(key, number);
      this.sets.push([...open.values()]);
    }
    return number;
  }
}

interface LookaheadState {
  readonly automaton: number;
  readonly state: number;
}

function findSatisfiedStates(automaton: Automaton): Uint8Array {
  const symbols = automaton.alphabet.length;
  return Uint8Array.from({ length: automaton.size }, (_, state) => {
    const row = automaton.next.subarray(state * symbols, (state + 1) * symbols);
    return Number(automaton.accepting[state] === 1 && row.every((target) => target === state));
  });
}
