import { type Alphabet, buildAlphabet, mapSymbols } from "./alphabet.ts";
import {
  type Automaton,
  combineAutomata,
  createUniversalAutomaton,
  exploreStates,
  nextState,
} from "./automaton.ts";
import { type Budget, UnsupportedConstructError } from "./budget.ts";
import { LookaheadStates } from "./lookahead-states.ts";
import { minimise } from "./minimise.ts";
import { compileRegex, type Guard, type RegexProgram } from "./regex-program.ts";
import type { RegexNode } from "./regex-syntax.ts";
import { removeRepeatedStart } from "./repeated-start.ts";

/**
 * The value `ahead` means the pattern of a lookahead, `behind` that of a lookbehind, and `anywhere` a whole pattern.
 * Each allows different constructs.
 */
type PatternPosition = "anywhere" | "ahead" | "behind";

/**
 * Builds the automaton of the texts in which the pattern matches, by the subset construction. A path that
 * passes a lookahead carries the state of the lookahead's automaton, which reads the rest of the text. A
 * lookbehind's automaton reads all of the text from the start. Throws UnsupportedConstructError and
 * TooLargeError.
 */
export function buildRegexAutomaton(root: RegexNode, budget: Budget): Automaton {
  return minimise(new SubsetConstruction(removeRepeatedStart(root), "anywhere", budget).build());
}

/**
 * A state of the subset construction. `paths` are sorted numbers `state * LOOKAHEAD_SETS_MAX + set`: a state of the
 * regex program, with the number of a set of pending lookaheads.
 */
interface Subset {
  readonly paths: readonly number[];
  /** The states of the automata of all lookbehinds. */
  readonly behind: readonly number[];
}

const LOOKAHEAD_SETS_MAX = 2 ** 20;

class SubsetConstruction {
  private readonly program: RegexProgram;
  private readonly budget: Budget;
  private readonly position: PatternPosition;
  private readonly lookaheads: LookaheadStates;
  private readonly lookbehinds: readonly Automaton[];
  private readonly lookbehindSymbols: readonly Int32Array[];
  /**
   * The number of each guard's automaton. Lookaheads and lookbehinds are numbered separately; the assertion `^` has no
   * automaton.
   */
  private readonly automatonNumbers = new Map<Guard, number>();
  private readonly alphabet: Alphabet;
  /** Flags by program state and symbol: 1 if the state reads the symbol. */
  private readonly readable: (Uint8Array | undefined)[];

  constructor(root: RegexNode, position: PatternPosition, budget: Budget) {
    this.program = compileRegex(root);
    this.position = position;
    this.budget = budget;
    const ahead: Automaton[] = [];
    const behind: Automaton[] = [];
    for (const { guard } of this.program.states.flatMap((state) => state.epsilonMoves)) {
      if (guard !== undefined) this.prepareGuard(guard, ahead, behind);
    }
    const sets = new Map(
      this.program.states.flatMap(({ reads: read }) =>
        read === undefined ? [] : [[read.points.join(), read.points] as const],
      ),
    );
    this.alphabet = buildAlphabet([
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
    this.lookbehinds = behind;
    this.lookbehindSymbols = behind.map((one) => mapSymbols(this.alphabet, one.alphabet));
    this.lookaheads = new LookaheadStates(ahead, this.alphabet, LOOKAHEAD_SETS_MAX);
  }

  build(): Automaton {
    const { alphabet, budget } = this;
    const behind = this.lookbehinds.map(() => 0);
    return exploreStates<Subset>({
      alphabet,
      budget,
      start: {
        paths: this.closeOverEpsilon([this.program.start * LOOKAHEAD_SETS_MAX], behind, true),
        behind,
      },
      key: (subset) => `${subset.paths.join()}/${subset.behind.join()}`,
      step: (subset, symbol) => this.step(subset, symbol),
      accepts: (subset) =>
        subset.paths.some(
          (path) =>
            Math.floor(path / LOOKAHEAD_SETS_MAX) === this.program.matched &&
            this.lookaheads.canEnd(path % LOOKAHEAD_SETS_MAX),
        ),
    });
  }

  private prepareGuard(guard: Guard, ahead: Automaton[], behind: Automaton[]): void {
    if (guard.kind === "start" && this.position === "ahead") {
      throw new UnsupportedConstructError("has ^ inside a lookahead, which is not supported");
    }
    if (guard.kind === "start" || this.automatonNumbers.has(guard)) return;
    if (guard.kind === "behind") {
      if (this.position !== "anywhere") {
        throw new UnsupportedConstructError(
          "has a lookbehind or a word boundary inside a lookaround, which is not supported",
        );
      }
      this.automatonNumbers.set(guard, behind.length);
      behind.push(minimise(new SubsetConstruction(guard.item, "behind", this.budget).build()));
      return;
    }
    if (this.position === "behind") {
      throw new UnsupportedConstructError(
        "has a lookahead or $ inside a lookbehind, which is not supported",
      );
    }
    this.automatonNumbers.set(guard, ahead.length);
    ahead.push(this.buildLookahead(guard));
  }

  private buildLookahead(guard: Exclude<Guard, { kind: "start" | "behind" }>): Automaton {
    const nothing = { ...createUniversalAutomaton(), next: Int32Array.of(-1) };
    if (guard.kind === "end") return nothing;
    const found = minimise(new SubsetConstruction(guard.item, "ahead", this.budget).build());
    return guard.negated
      ? minimise(combineAutomata(createUniversalAutomaton(), found, "minus", this.budget))
      : found;
  }

  private step(subset: Subset, symbol: number): Subset | undefined {
    const { matched, start, states } = this.program;
    const moved: number[] = [];
    // The pattern may match anywhere: it may begin at any character, and any text may follow.
    if (this.position !== "ahead") moved.push(start * LOOKAHEAD_SETS_MAX);
    this.budget.spend(subset.paths.length);
    for (const path of subset.paths) {
      const state = Math.floor(path / LOOKAHEAD_SETS_MAX);
      const stays = state === matched && this.position !== "behind";
      if (!stays && this.readable[state]?.[symbol] !== 1) continue;
      const left = this.lookaheads.advance(path % LOOKAHEAD_SETS_MAX, symbol);
      if (left === undefined) continue;
      moved.push((stays ? matched : (states[state]?.reads?.to ?? 0)) * LOOKAHEAD_SETS_MAX + left);
    }
    const behind = this.lookbehinds.map((one, index) =>
      nextState(one, subset.behind[index] ?? -1, this.lookbehindSymbols[index]?.[symbol] ?? -1),
    );
    const paths = this.closeOverEpsilon(moved, behind, false);
    // If the pattern may begin at every character, an empty set of paths is not a dead state.
    return paths.length === 0 && this.position === "ahead" ? undefined : { paths, behind };
  }

  /**
   * Follows all moves that read no character. Returns the paths whose state reads a character, or in which the pattern
   * has matched.
   */
  private closeOverEpsilon(
    from: readonly number[],
    behind: readonly number[],
    atStart: boolean,
  ): number[] {
    const { matched, states } = this.program;
    const seen = new Set(from);
    const kept: number[] = [];
    // The loop also visits the paths that it adds to `seen`, so it follows sequences of epsilon moves to their end.
    for (const path of seen) {
      const number = Math.floor(path / LOOKAHEAD_SETS_MAX);
      const state = states[number];
      if (number === matched) {
        // The pattern has matched without pending lookaheads, so every continuation is accepted.
        if (path % LOOKAHEAD_SETS_MAX === 0 && this.position !== "behind") return [path];
        kept.push(path);
      } else if (state?.reads !== undefined) {
        kept.push(path);
      }
      for (const { to, guard } of state?.epsilonMoves ?? []) {
        this.budget.spend(1);
        const left = this.passGuard(guard, path % LOOKAHEAD_SETS_MAX, behind, atStart);
        if (left !== undefined) seen.add(to * LOOKAHEAD_SETS_MAX + left);
      }
    }
    return kept.toSorted((left, right) => left - right);
  }

  /**
   * Returns the set of pending lookaheads after an epsilon move whose guard is an assertion, such as `^` or a
   * lookaround; undefined if the assertion does not hold.
   */
  private passGuard(
    guard: Guard | undefined,
    lookaheadSet: number,
    behind: readonly number[],
    atStart: boolean,
  ): number | undefined {
    if (guard === undefined) return lookaheadSet;
    if (guard.kind === "start") return atStart ? lookaheadSet : undefined;
    const number = this.automatonNumbers.get(guard) ?? 0;
    if (guard.kind !== "behind") return this.lookaheads.add(lookaheadSet, number);
    const holds = this.lookbehinds[number]?.accepting[behind[number] ?? -1] === 1;
    return holds !== guard.negated ? lookaheadSet : undefined;
  }
}
