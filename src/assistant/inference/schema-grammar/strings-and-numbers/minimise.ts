import type { Alphabet } from "./alphabet.ts";
import type { Automaton } from "./automaton.ts";
import { normalizeCodePoints } from "./code-points.ts";

/**
 * Returns the minimal automaton of the same language: without dead states, and with equivalent states
 * (Hopcroft's algorithm) and equivalent symbols merged. States are numbered in the order of a walk from the
 * start, so that equal languages give equal automata.
 */
export function minimise(automaton: Automaton): Automaton {
  const merged = mergeSymbols(automaton);
  const blocks = equivalentStates(merged);
  return mergeSymbols(quotient(merged, blocks));
}

/**
 * Partitions the states into blocks of equivalent states, and returns the block number of each state. The additional
 * last state is the dead state.
 */
function equivalentStates(automaton: Automaton): Int32Array {
  const symbols = automaton.alphabet.length;
  const sink = automaton.size;
  const count = sink + 1;
  const before = predecessors(automaton);
  // The members of a block are adjacent in `order`; `place` is the inverse of `order`.
  const order = new Int32Array(count);
  const place = new Int32Array(count);
  const block = new Int32Array(count);
  const first = [0];
  const end: number[] = [];
  let filled = 0;
  for (const wanted of [0, 1]) {
    for (let state = 0; state < count; state += 1) {
      if ((automaton.accepting[state] ?? 0) !== wanted) continue;
      order[filled] = state;
      place[state] = filled;
      block[state] = wanted;
      filled += 1;
    }
    end.push(filled);
    if (wanted === 0) first.push(filled);
  }
  const marked = [0, 0];
  const work: number[] = [0, 1];
  while (work.length > 0) {
    const splitter = work.pop() ?? 0;
    const members = order.slice(first[splitter], end[splitter]);
    for (let symbol = 0; symbol < symbols; symbol += 1) {
      const touched: number[] = [];
      for (const member of members) {
        const row = member * symbols + symbol;
        for (let at = before.starts[row] ?? 0; at < (before.starts[row + 1] ?? 0); at += 1) {
          const state = before.states[at] ?? 0;
          const home = block[state] ?? 0;
          const spot = (first[home] ?? 0) + (marked[home] ?? 0);
          if (marked[home] === 0) touched.push(home);
          marked[home] = (marked[home] ?? 0) + 1;
          swap(order, place, place[state] ?? 0, spot);
        }
      }
      for (const home of touched) {
        const size = marked[home] ?? 0;
        marked[home] = 0;
        const from = first[home] ?? 0;
        const to = end[home] ?? 0;
        if (size === to - from) continue;
        // The marked states of the block have a transition into the splitter, and the other states have none. The
        // smaller of these two sets becomes a new block.
        const added = first.length;
        const frontIsSmaller = size <= to - from - size;
        first.push(frontIsSmaller ? from : from + size);
        end.push(frontIsSmaller ? from + size : to);
        if (frontIsSmaller) first[home] = from + size;
        else end[home] = from + size;
        for (let at = first[added] ?? 0; at < (end[added] ?? 0); at += 1) {
          block[order[at] ?? 0] = added;
        }
        marked.push(0);
        // Hopcroft's algorithm: adding one half of the block to the work list is enough. If the old block is still in
        // the list, both halves are in it.
        work.push(added);
      }
    }
  }
  return block;
}

function swap(order: Int32Array, place: Int32Array, a: number, b: number): void {
  const left = order[a] ?? 0;
  const right = order[b] ?? 0;
  order[a] = right;
  order[b] = left;
  place[right] = a;
  place[left] = b;
}

/** Returns the predecessors of each state by symbol, including those of the dead state. */
function predecessors(automaton: Automaton): { starts: Int32Array; states: Int32Array } {
  const symbols = automaton.alphabet.length;
  const sink = automaton.size;
  const rows = (sink + 1) * symbols;
  const starts = new Int32Array(rows + 1);
  const target = (from: number, symbol: number): number => {
    const next = from === sink ? -1 : (automaton.next[from * symbols + symbol] ?? -1);
    return (next < 0 ? sink : next) * symbols + symbol;
  };
  for (let from = 0; from <= sink; from += 1) {
    for (let symbol = 0; symbol < symbols; symbol += 1) {
      const row = target(from, symbol) + 1;
      starts[row] = (starts[row] ?? 0) + 1;
    }
  }
  for (let row = 0; row < rows; row += 1) {
    starts[row + 1] = (starts[row + 1] ?? 0) + (starts[row] ?? 0);
  }
  const filled = starts.slice();
  const states = new Int32Array(rows);
  for (let from = 0; from <= sink; from += 1) {
    for (let symbol = 0; symbol < symbols; symbol += 1) {
      const row = target(from, symbol);
      states[filled[row] ?? 0] = from;
      filled[row] = (filled[row] ?? 0) + 1;
    }
  }
  return { starts, states };
}

/**
 * Builds the minimal automaton: one state for each block of equivalent states, in breadth-first order from the start.
 */
function quotient(automaton: Automaton, blocks: Int32Array): Automaton {
  const symbols = automaton.alphabet.length;
  const dead = blocks[automaton.size] ?? -1;
  const numbers = new Map<number, number>([[blocks[0] ?? 0, 0]]);
  const representatives = [0];
  const next: number[] = [];
  for (let index = 0; index < representatives.length; index += 1) {
    const state = representatives[index] ?? 0;
    for (let symbol = 0; symbol < symbols; symbol += 1) {
      const target = automaton.next[state * symbols + symbol] ?? -1;
      const home = target < 0 ? dead : (blocks[target] ?? dead);
      if (home === dead) {
        next.push(-1);
        continue;
      }
      let number = numbers.get(home);
      if (number === undefined) {
        number = representatives.length;
        numbers.set(home, number);
        representatives.push(target);
      }
      next.push(number);
    }
  }
  return {
    alphabet: automaton.alphabet,
    size: representatives.length,
    next: Int32Array.from(next),
    accepting: Uint8Array.from(representatives, (state) => automaton.accepting[state] ?? 0),
  };
}

/** Merges symbols that have the same transitions in all states. */
function mergeSymbols(automaton: Automaton): Automaton {
  const symbols = automaton.alphabet.length;
  const groups = new Map<string, number[]>();
  for (let symbol = 0; symbol < symbols; symbol += 1) {
    const column: number[] = [];
    for (let at = symbol; at < automaton.next.length; at += symbols) {
      column.push(automaton.next[at] ?? -1);
    }
    const key = column.join();
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [symbol]);
    else group.push(symbol);
  }
  if (groups.size === symbols) return automaton;
  const kept = [...groups.values()];
  const alphabet: Alphabet = kept.map((group) =>
    normalizeCodePoints(group.flatMap((symbol) => automaton.alphabet[symbol] ?? [])),
  );
  const next = new Int32Array(automaton.size * kept.length);
  for (let state = 0; state < automaton.size; state += 1) {
    for (const [symbol, group] of kept.entries()) {
      next[state * kept.length + symbol] = automaton.next[state * symbols + (group[0] ?? 0)] ?? -1;
    }
  }
  return { ...automaton, alphabet, next };
}
