import type { CodePointRange } from "../expression.ts";
import { type CodePoints, everyCodePoint } from "./code-points.ts";

/**
 * A partition of all code points into groups that an automaton does not distinguish; each group is a
 * symbol. An automaton over symbols has a handful of columns instead of a million.
 */
export type Alphabet = readonly CodePoints[];

/** Returns the coarsest alphabet in which each of the sets is a union of symbols. */
export function buildAlphabet(sets: readonly CodePoints[]): Alphabet {
  const edges: { at: number; set: number }[] = [];
  for (const [set, points] of [everyCodePoint, ...sets].entries()) {
    for (const [from, to] of points) edges.push({ at: from, set }, { at: to + 1, set });
  }
  edges.sort((left, right) => left.at - right.at);
  const inside = new Set<number>();
  const groups = new Map<string, CodePointRange[]>();
  for (const [index, { at, set }] of edges.entries()) {
    if (!inside.delete(set)) inside.add(set);
    const end = edges[index + 1]?.at ?? 0x110000;
    if (end === at || !inside.has(0)) continue;
    const key = [...inside].toSorted((left, right) => left - right).join(" ");
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [[at, end - 1]]);
    else group.push([at, end - 1]);
  }
  return [...groups.values()];
}

/** Maps each symbol of a finer alphabet to the symbol of `coarse` that contains it. */
export function mapSymbols(fine: Alphabet, coarse: Alphabet): Int32Array {
  const find = createSymbolFinder(coarse);
  return Int32Array.from(fine, (points) => find(points[0]?.[0] ?? 0));
}

/** Returns a function that maps a code point to its symbol, or to -1 for a surrogate. */
export function createSymbolFinder(alphabet: Alphabet): (codePoint: number) => number {
  const ranges = alphabet
    .flatMap((points, symbol) => points.map(([from, to]) => ({ from, to, symbol })))
    .toSorted((left, right) => left.from - right.from);
  return (codePoint) => {
    let low = 0;
    let high = ranges.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const range = ranges[middle];
      if (range === undefined) return -1;
      if (codePoint < range.from) high = middle - 1;
      else if (codePoint > range.to) low = middle + 1;
      else return range.symbol;
    }
    return -1;
  };
}
