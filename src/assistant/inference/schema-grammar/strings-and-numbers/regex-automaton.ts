import { type Alphabet, alphabetOf, symbolsWithin } from "./alphabet.ts";
import { type Automaton, combine, everyText, explore, follow } from "./automaton.ts";
import { type Budget, UnsupportedTextError } from "./budget.ts";
import { minimise } from "./minimise.ts";
import { Obligations } from "./obligations.ts";
import { compileRegex, type Guard, type RegexProgram } from "./regex-program.ts";
import type { RegexNode } from "./regex-syntax.ts";
import { withoutRepeatedStart } from "./repeated-start.ts";

/** Where in a text a pattern may stand, and what may stand in it. */
type Place = "anywhere" | "ahead" | "behind";

/**
 * The texts in which the pattern is found, as an automaton, by following all ways through the program at
 * once. A lookahead becomes an obligation of the way that passed it: an automaton that runs along on the
 * rest of the text. A lookbehind is an automaton that has run along on all of the text before.
 * Throws UnsupportedTextError and TooLargeError.
 */
export function automatonOfRegex(root: RegexNode, budget: Budget): Automaton {
  return minimise(new Subsets(withoutRepeatedStart(root), "anywhere", budget).automaton());
}

/** One set of ways: where each is, as `state * OBLIGATIONS_MAX + obligations`, sorted. */
interface Subset {
  readonly ways: readonly number[];
  /** The state of each lookbehind's automaton. */
  readonly behind: readonly number[];
}

const OBLIGATIONS_MAX = 2 ** 20;

class Subsets {
  private readonly program: RegexProgram;
  private readonly budget: Budget;
  private readonly place: Place;
  private readonly obligations: Obligations;
  private readonly behind: readonly Automaton[];
  private readonly behindSymbols: readonly Int32Array[];
  /** Of each guard that is a lookaround, the number of its automaton. */
  private readonly numbers = new Map<Guard, number>();
  private readonly alphabet: Alphabet;
  /** Of each set of characters that a state reads, whether each symbol is in it. */
  private readonly readable: (Uint8Array | undefined)[];

  constructor(root: RegexNode, place: Place, budget: Budget) {
    this.program = compileRegex(root);
    this.place = place;
    this.budget = budget;
    const ahead: Automaton[] = [];
    const behind: Automaton[] = [];
    for (const { guard } of this.program.states.flatMap((state) => state.free)) {
      if (guard !== undefined) this.prepare(guard, ahead, behind);
    }
    const sets = new Map(
      this.program.states.flatMap(({ reads: read }) =>
        read === undefined ? [] : [[read.points.join(), read.points] as const],
      ),
    );
    this.alphabet = alphabetOf([
      ...sets.values(),
      ...[...ahead, ...behind].flatMap((automaton) => automaton.alphabet),
    ]);
    const singles = this.alphabet.map((points) => points[0]?.[0] ?? 0);
    const tables = new Map(
      [...sets].map(([key, points]) => [
        key,
        Uint8Array.from(singles, (at) =>
          Number(points.some(([from, to]) => from <= at && at <= to)),
        ),
      ]),
    );
    this.readable = this.program.states.map(({ reads: read }) =>
      read === undefined ? undefined : tables.get(read.points.join()),
    );
    this.behind = behind;
    this.behindSymbols = behind.map((one) => symbolsWithin(this.alphabet, one.alphabet));
    this.obligations = new Obligations(ahead, this.alphabet, OBLIGATIONS_MAX);
  }

  automaton(): Automaton {
    const { alphabet, budget } = this;
    const behind = this.behind.map(() => 0);
    return explore<Subset>({
      alphabet,
      budget,
      start: { ways: this.close([this.program.start * OBLIGATIONS_MAX], behind, true), behind },
      key: (subset) => `${subset.ways.join()}/${subset.behind.join()}`,
      step: (subset, symbol) => this.step(subset, symbol),
      accepts: (subset) =>
        subset.ways.some(
          (way) =>
            Math.floor(way / OBLIGATIONS_MAX) === this.program.matched &&
            this.obligations.mayEnd(way % OBLIGATIONS_MAX),
        ),
    });
  }

  private prepare(guard: Guard, ahead: Automaton[], behind: Automaton[]): void {
    if (guard.kind === "start" && this.place === "ahead") {
      throw new UnsupportedTextError("has ^ inside of a lookahead, which is not supported");
    }
    if (guard.kind === "start" || this.numbers.has(guard)) return;
    if (guard.kind === "behind") {
      if (this.place !== "anywhere") {
        throw new UnsupportedTextError(
          "has a lookbehind or a word boundary inside of a lookaround, which is not supported",
        );
      }
      this.numbers.set(guard, behind.length);
      behind.push(minimise(new Subsets(guard.item, "behind", this.budget).automaton()));
      return;
    }
    if (this.place === "behind") {
      throw new UnsupportedTextError("has a lookahead or $ inside of a lookbehind");
    }
    this.numbers.set(guard, ahead.length);
    ahead.push(this.lookahead(guard));
  }

  private lookahead(guard: Exclude<Guard, { kind: "start" | "behind" }>): Automaton {
    const nothing = { ...everyText(), next: Int32Array.of(-1) };
    if (guard.kind === "end") return nothing;
    const found = minimise(new Subsets(guard.item, "ahead", this.budget).automaton());
    return guard.negated ? minimise(combine(everyText(), found, "minus", this.budget)) : found;
  }

  private step(subset: Subset, symbol: number): Subset | undefined {
    const { matched, start, states } = this.program;
    const moved: number[] = [];
    // A pattern is searched for: it may begin at any character, and anything may follow it.
    if (this.place !== "ahead") moved.push(start * OBLIGATIONS_MAX);
    this.budget.spend(subset.ways.length);
    for (const way of subset.ways) {
      const state = Math.floor(way / OBLIGATIONS_MAX);
      const stays = state === matched && this.place !== "behind";
      if (!stays && this.readable[state]?.[symbol] !== 1) continue;
      const left = this.obligations.after(way % OBLIGATIONS_MAX, symbol);
      if (left === undefined) continue;
      moved.push((stays ? matched : (states[state]?.reads?.to ?? 0)) * OBLIGATIONS_MAX + left);
    }
    const behind = this.behind.map((one, index) =>
      follow(one, subset.behind[index] ?? -1, this.behindSymbols[index]?.[symbol] ?? -1),
    );
    const ways = this.close(moved, behind, false);
    // Where a pattern may begin anew at each character, no way at all is not the end.
    return ways.length === 0 && this.place === "ahead" ? undefined : { ways, behind };
  }

  /** Adds all that is reached without reading, and keeps the ways that read or have matched. */
  private close(from: readonly number[], behind: readonly number[], atStart: boolean): number[] {
    const { matched, states } = this.program;
    const seen = new Set(from);
    const kept: number[] = [];
    // A set is walked in the order of insertion, and what is added meanwhile is walked too.
    for (const way of seen) {
      const number = Math.floor(way / OBLIGATIONS_MAX);
      const state = states[number];
      if (number === matched) {
        // Matched, and nothing is asked of the rest: every text that begins like this is found.
        if (way % OBLIGATIONS_MAX === 0 && this.place !== "behind") return [way];
        kept.push(way);
      } else if (state?.reads !== undefined) {
        kept.push(way);
      }
      for (const { to, guard } of state?.free ?? []) {
        this.budget.spend(1);
        const left = this.pass(guard, way % OBLIGATIONS_MAX, behind, atStart);
        if (left !== undefined) seen.add(to * OBLIGATIONS_MAX + left);
      }
    }
    return kept.toSorted((left, right) => left - right);
  }

  /** The obligations of a way after it has passed a guard; undefined: it does not pass. */
  private pass(
    guard: Guard | undefined,
    obligations: number,
    behind: readonly number[],
    atStart: boolean,
  ): number | undefined {
    if (guard === undefined) return obligations;
    if (guard.kind === "start") return atStart ? obligations : undefined;
    const number = this.numbers.get(guard) ?? 0;
    if (guard.kind !== "behind") return this.obligations.with(obligations, number);
    const holds = this.behind[number]?.accepting[behind[number] ?? -1] === 1;
    return holds !== guard.negated ? obligations : undefined;
  }
}
