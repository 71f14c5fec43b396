import { AssistantError } from "../../assistant-error.ts";
import type { Expression } from "./expression.ts";

/** The maximum number of steps of the ambiguity check. Each step adds one character to the worst-case text. */
const STEPS_MAX = 120;
/** The maximum number of parse stacks after any character of the text. A grammar with more stacks is refused. */
const STACKS_MAX = 1_500;
/**
 * The number of visited parse stacks after which the ambiguity check accepts the grammar. With exponential growth,
 * STACKS_MAX would have been exceeded before.
 */
const VISITED_STACKS_MAX = 60_000;

/** A parse stack: the expression to read next, and the rest of the stack. */
interface Stack {
  readonly id: number;
  readonly top: Expression;
  /** If `top` is a literal, the number of its characters that have been read. */
  readonly read: number;
  readonly next: Stack | undefined;
  readonly depth: number;
}

/**
 * Refuses grammars whose ambiguity grows exponentially. llama.cpp follows all parses of a text at once. If
 * a recursive schema has two parses at each level, their number doubles with each level, and native code
 * cannot be interrupted. The check greedily builds the worst text and counts the parses.
 */
export function assertBoundedAmbiguity(
  rules: ReadonlyMap<string, Expression>,
  root: Expression,
): void {
  if (!isRecursive(rules)) return;
  const search = new AmbiguitySearch(rules);
  let stacks = search.start(root);
  for (
    let step = 0;
    step < STEPS_MAX && stacks.size > 0 && search.visitedStacks < VISITED_STACKS_MAX;
    step += 1
  ) {
    stacks = search.advanceToWorst(stacks);
    if (stacks.size > STACKS_MAX) {
      throw new AssistantError(
        "unsupported_schema",
        "The schema is recursive and ambiguous at each level; make the alternatives differ before they recurse, such as by a const in their first property",
      );
    }
  }
}

class AmbiguitySearch {
  /** The number of parse stacks that the search has expanded so far. */
  visitedStacks = 0;
  readonly #rules: ReadonlyMap<string, Expression>;
  readonly #ids = new Map<Expression, number>();
  readonly #stacks = new Map<string, Stack>();

  constructor(rules: ReadonlyMap<string, Expression>) {
    this.#rules = rules;
  }

  start(root: Expression): Set<Stack> {
    const found = new Set<Stack>();
    this.#expand(this.#intern(root, 0, undefined), found);
    return found;
  }

  /**
   * Reads the character that leaves the most parse stacks, and returns these stacks. Of several such characters, reads
   * the one that leaves the deepest stack.
   */
  advanceToWorst(stacks: ReadonlySet<Stack>): Set<Stack> {
    const candidates = new Set<number>();
    for (const { top, read } of stacks) {
      if (top.kind === "literal") candidates.add(top.text.codePointAt(read) ?? 0);
      else if (top.kind === "class") candidates.add(top.ranges[0]?.[0] ?? 0);
    }
    let worst = new Set<Stack>();
    let worstDepth = -1;
    for (const candidate of candidates) {
      const after = this.#advance(stacks, candidate);
      const depth = Math.max(0, ...[...after].slice(0, 50).map((stack) => stack.depth));
      if (after.size > worst.size || (after.size === worst.size && depth > worstDepth)) {
        worst = after;
        worstDepth = depth;
      }
      if (worst.size > STACKS_MAX || this.visitedStacks > VISITED_STACKS_MAX) break;
    }
    return worst;
  }

  #advance(stacks: ReadonlySet<Stack>, character: number): Set<Stack> {
    const found = new Set<Stack>();
    for (const { top, read, next } of stacks) {
      this.visitedStacks += 1;
      if (top.kind === "literal" && top.text.codePointAt(read) === character) {
        const end = read + (character > 0xffff ? 2 : 1);
        if (end < top.text.length) found.add(this.#intern(top, end, next));
        else this.#expand(next, found);
      } else if (
        top.kind === "class" &&
        top.ranges.some(([from, to]) => from <= character && character <= to)
      ) {
        this.#expand(next, found);
      }
    }
    return found;
  }

  /**
   * Replaces rules, sequences, choices and repetitions at the top of a parse stack until the top of every resulting
   * stack is a literal or a character class. Adds these stacks to `found`.
   */
  #expand(start: Stack | undefined, found: Set<Stack>): void {
    const todo = [start];
    const seen = new Set<Stack | undefined>();
    while (todo.length > 0) {
      const stack = todo.pop();
      if (!stack || seen.has(stack)) continue;
      seen.add(stack);
      this.visitedStacks += 1;
      const { top, next } = stack;
      if (top.kind === "class" || (top.kind === "literal" && top.text !== "")) found.add(stack);
      else if (top.kind === "literal") todo.push(next);
      else if (top.kind === "choice") {
        for (const option of top.options) todo.push(this.#intern(option, 0, next));
      } else if (top.kind === "rule") {
        const body = this.#rules.get(top.name);
        if (body) todo.push(this.#intern(body, 0, next));
      } else if (top.kind === "sequence") {
        let rest = next;
        for (const item of top.items.toReversed()) rest = this.#intern(item, 0, rest);
        todo.push(rest);
      } else {
        // The bounds of a repetition are ignored, because they do not add parses.
        if (top.min === 0) todo.push(next);
        todo.push(this.#intern(top.item, 0, this.#intern(removeBounds(top), 0, next)));
      }
    }
  }

  #intern(top: Expression, read: number, next: Stack | undefined): Stack {
    const number = this.#ids.get(top) ?? this.#ids.size;
    this.#ids.set(top, number);
    const key = `${number} ${read} ${next?.id ?? ""}`;
    let stack = this.#stacks.get(key);
    if (!stack) {
      stack = { id: this.#stacks.size, top, read, next, depth: (next?.depth ?? 0) + 1 };
      this.#stacks.set(key, stack);
    }
    return stack;
  }
}

const unboundedRepetitions = new WeakMap<Expression, Expression>();

/** Returns the repetition without its bounds. Calls with the same repetition return the same object. */
function removeBounds(repetition: Extract<Expression, { kind: "repeat" }>): Expression {
  if (repetition.min === 0 && repetition.max === undefined) return repetition;
  const known = unboundedRepetitions.get(repetition);
  const made: Expression = known ?? { ...repetition, min: 0, max: undefined };
  unboundedRepetitions.set(repetition, made);
  return made;
}

/** Returns true if a rule refers to itself other than at its end, where a reference needs no stack. */
function isRecursive(rules: ReadonlyMap<string, Expression>): boolean {
  const state = new Map<string, "open" | "done">();
  const visit = (name: string): boolean => {
    if (state.has(name)) return state.get(name) === "open";
    state.set(name, "open");
    const body = rules.get(name);
    const found = body !== undefined && visitInside(body, name);
    state.set(name, "done");
    return found;
  };
  const visitInside = (expression: Expression, inside: string): boolean => {
    switch (expression.kind) {
      case "rule":
        // Grammars contain a direct self-reference only at the end of a rule, as in a rule for a list of members. It
        // needs no parse stack, so it does not count as recursion.
        return expression.name !== inside && visit(expression.name);
      case "repeat":
        return visitInside(expression.item, inside);
      case "sequence":
        return expression.items.some((item) => visitInside(item, inside));
      case "choice":
        return expression.options.some((option) => visitInside(option, inside));
      default:
        return false;
    }
  };
  return [...rules.keys()].some(visit);
}
