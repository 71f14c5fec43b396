import { TooLargeError } from "./budget.ts";
import type { CodePoints } from "./code-points.ts";
import type { RegexNode } from "./regex-syntax.ts";

/** A nondeterministic automaton: each state reads one set of characters or has epsilon moves. */
export interface RegexProgram {
  readonly states: readonly ProgramState[];
  readonly start: number;
  /** The state in which the pattern has matched. */
  readonly matched: number;
}

export interface ProgramState {
  readonly reads?: { readonly points: CodePoints; to: number };
  readonly epsilonMoves: EpsilonMove[];
}

/** A move that reads nothing; a guard, if any, must hold at the position. */
export interface EpsilonMove {
  readonly to: number;
  readonly guard: Guard | undefined;
}

export type Guard =
  | { readonly kind: "start" }
  | { readonly kind: "end" }
  | { readonly kind: "ahead"; readonly item: RegexNode; readonly negated: boolean }
  | { readonly kind: "behind"; readonly item: RegexNode; readonly negated: boolean };

const STATES_MAX = 30_000;

/**
 * Compiles a pattern to a nondeterministic automaton. Throws TooLargeError before it builds a program that is too
 * large, as for `(x{1,1000}){1,1000}`.
 */
export function compileRegex(root: RegexNode): RegexProgram {
  if (countStates(root) > STATES_MAX) throw new TooLargeError();
  const builder = new ProgramBuilder();
  const matched = builder.add();
  const start = builder.build(root, matched);
  return { states: builder.states, start, matched };
}

/** Counts the states that `compileRegex` would create for the syntax tree `node`, without creating them. */
function countStates(node: RegexNode): number {
  if (node.kind === "sequence") return 1 + sumStates(node.items);
  if (node.kind === "choice") return 1 + sumStates(node.options);
  if (node.kind !== "repeat") return 1;
  return 1 + (1 + countStates(node.item)) * Math.max(1, node.max ?? node.min + 1, node.min);
}

function sumStates(nodes: readonly RegexNode[]): number {
  return nodes.reduce((total, node) => total + countStates(node), 0);
}

class ProgramBuilder {
  readonly states: ProgramState[] = [];

  add(state: ProgramState = { epsilonMoves: [] }): number {
    return this.states.push(state) - 1;
  }

  /** Adds states that read `node` and continue at `next`; returns the first of them. */
  build(node: RegexNode, next: number): number {
    switch (node.kind) {
      case "class":
        return this.add({ reads: { points: node.points, to: next }, epsilonMoves: [] });
      case "sequence":
        return node.items.reduceRight((after, item) => this.build(item, after), next);
      case "choice":
        return this.fork(node.options.map((option) => this.build(option, next)));
      case "repeat":
        return this.repeat(node.item, node.min, node.max, next);
      default:
        return this.add({ epsilonMoves: [{ to: next, guard: node }] });
    }
  }

  private repeat(item: RegexNode, min: number, max: number | undefined, next: number): number {
    let at = next;
    if (max === undefined) {
      const loop = this.add();
      const body = this.build(item, loop);
      this.states[loop]?.epsilonMoves.push(
        { to: body, guard: undefined },
        { to: next, guard: undefined },
      );
      at = loop;
    } else {
      // The optional copies of the item are built from the last to the first. A copy can be left out only together with
      // all copies after it.
      for (let copy = min; copy < max; copy += 1) at = this.fork([this.build(item, at), next]);
    }
    for (let copy = 0; copy < min; copy += 1) at = this.build(item, at);
    return at;
  }

  private fork(targets: readonly number[]): number {
    return this.add({ epsilonMoves: targets.map((to) => ({ to, guard: undefined })) });
  }
}
