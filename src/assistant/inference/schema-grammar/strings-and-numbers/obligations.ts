import { type Alphabet, symbolsWithin } from "./alphabet.ts";
import { type Automaton, follow } from "./automaton.ts";
import { TooLargeError } from "./budget.ts";

/**
 * What lookaheads still ask of the rest of the text: for each that was passed, the state of its automaton.
 * Sets of them are numbered; 0 is the empty set.
 */
export class Obligations {
  private readonly automata: readonly Automaton[];
  private readonly symbols: readonly Int32Array[];
  private readonly limit: number;
  /** Of each automaton and state, whether every text is accepted from there: nothing more is asked. */
  private readonly settled: readonly Uint8Array[];
  private readonly sets: (readonly Obligation[])[] = [[]];
  private readonly found = new Map<string, number>([["", 0]]);
  private readonly afterKnown = new Map<string, number | undefined>();

  constructor(automata: readonly Automaton[], alphabet: Alphabet, limit: number) {
    this.automata = automata;
    this.symbols = automata.map((automaton) => symbolsWithin(alphabet, automaton.alphabet));
    this.limit = limit;
    this.settled = automata.map((automaton) => settledStates(automaton));
  }

  /** The set with one obligation more. */
  with(set: number, automaton: number): number {
    return this.number([...(this.sets[set] ?? []), { automaton, state: 0 }]);
  }

  /** The set after a symbol; undefined: the symbol breaks an obligation. */
  after(set: number, symbol: number): number | undefined {
    if (set === 0) return 0;
    const key = `${set}/${symbol}`;
    if (this.afterKnown.has(key)) return this.afterKnown.get(key);
    const moved = (this.sets[set] ?? []).map(({ automaton, state }) => ({
      automaton,
      state: this.follow(automaton, state, symbol),
    }));
    const result = moved.some(({ state }) => state < 0) ? undefined : this.number(moved);
    this.afterKnown.set(key, result);
    return result;
  }

  /** Whether the text may end here. */
  mayEnd(set: number): boolean {
    return (this.sets[set] ?? []).every(
      ({ automaton, state }) => this.automata[automaton]?.accepting[state] === 1,
    );
  }

  private follow(automaton: number, state: number, symbol: number): number {
    const machine = this.automata[automaton];
    if (machine === undefined) return -1;
    return follow(machine, state, this.symbols[automaton]?.[symbol] ?? -1);
  }

  private number(obligations: readonly Obligation[]): number {
    const open = new Map<string, Obligation>();
    for (const obligation of obligations) {
      const { automaton, state } = obligation;
      if (this.settled[automaton]?.[state] !== 1) open.set(`${automaton}:${state}`, obligation);
    }
    const key = [...open.keys()].toSorted().join();
    let number = this.found.get(key);
    if (number === undefined) {
      number = this.sets.length;
      if (number >= this.limit) throw new TooLargeError();
      this.found.set(key, number);
      this.sets.push([...open.values()]);
    }
    return number;
  }
}

interface Obligation {
  readonly automaton: number;
  readonly state: number;
}

function settledStates(automaton: Automaton): Uint8Array {
  const symbols = automaton.alphabet.length;
  return Uint8Array.from({ length: automaton.size }, (_, state) => {
    const row = automaton.next.subarray(state * symbols, (state + 1) * symbols);
    return Number(automaton.accepting[state] === 1 && row.every((target) => target === state));
  });
}
