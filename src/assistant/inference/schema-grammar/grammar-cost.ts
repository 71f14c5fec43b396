import { AssistantError } from "../../assistant-error.ts";
import type { Expression } from "./expression.ts";
import { schemaLimits } from "./schema-limits.ts";

/**
 * The beginnings of an expression: the rules with which it can begin, and `nullable`, which is true if it can match the
 * empty text.
 */
interface FirstSet {
  readonly nullable: boolean;
  /** The rules with which the expression can begin. A rule occurs once for each path that leads to it. */
  readonly first: readonly string[];
}

/**
 * Refuses grammars that llama.cpp would need too long to parse: it expands repetitions, and it follows every path
 * through the beginnings of rules. Throws Error for left recursion, with which llama.cpp would hang; only a bug in the
 * schema compiler can produce it.
 */
export function checkCost(rules: ReadonlyMap<string, Expression>, root: Expression): void {
  let elements = countElements(root);
  for (const expression of rules.values()) elements += countElements(expression);
  if (elements > schemaLimits.elements) {
    throw tooCostlySchema(
      "has repetitions that are too large: lower the bounds of items and lengths",
    );
  }
  let walks = 0;
  const walksByRule = new Map<string, number>();
  const inProgress = new Set<string>();
  const firstSets = new Map<string, FirstSet>();
  const countWalks = (name: string): number => {
    const known = walksByRule.get(name);
    if (known !== undefined) return known;
    if (inProgress.has(name)) throw new Error(`the grammar is left-recursive at ${name}`);
    inProgress.add(name);
    let count = 1;
    for (const next of computeRuleFirstSet(name, rules, firstSets).first) count += countWalks(next);
    inProgress.delete(name);
    walksByRule.set(name, count);
    return count;
  };
  const reached = new Set<string>();
  for (const name of rules.keys()) {
    if (reached.has(name)) continue;
    walks += countWalks(name);
    markReached(name, firstSets, reached);
    if (walks > schemaLimits.leftWalk) {
      throw tooCostlySchema("has too many alternatives with the same beginning: merge some");
    }
  }
}

function tooCostlySchema(what: string): AssistantError {
  return new AssistantError("unsupported_schema", `The schema ${what}`);
}

function markReached(
  name: string,
  firstSets: ReadonlyMap<string, FirstSet>,
  reached: Set<string>,
): void {
  const todo = [name];
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    if (reached.has(next)) continue;
    reached.add(next);
    todo.push(...(firstSets.get(next)?.first ?? []));
  }
}

function computeRuleFirstSet(
  name: string,
  rules: ReadonlyMap<string, Expression>,
  known: Map<string, FirstSet>,
): FirstSet {
  const found = known.get(name);
  if (found) return found;
  const expression = rules.get(name);
  // A rule that refers to itself finds this empty entry, which ends the recursion. `checkCost` throws for a
  // left-recursive rule.
  known.set(name, { nullable: false, first: [] });
  const rule = expression
    ? computeFirstSet(expression, (other) => computeRuleFirstSet(other, rules, known).nullable)
    : { nullable: false, first: [] };
  known.set(name, rule);
  return rule;
}

function computeFirstSet(expression: Expression, isNullable: (name: string) => boolean): FirstSet {
  switch (expression.kind) {
    case "literal":
      return { nullable: expression.text === "", first: [] };
    case "class":
      return { nullable: false, first: [] };
    case "rule":
      return { nullable: isNullable(expression.name), first: [expression.name] };
    case "repeat": {
      const { nullable, first } = computeFirstSet(expression.item, isNullable);
      return { nullable: nullable || expression.min === 0, first };
    }
    case "choice": {
      const options = expression.options.map((option) => computeFirstSet(option, isNullable));
      return {
        nullable: options.some((option) => option.nullable),
        first: options.flatMap((option) => option.first),
      };
    }
    default: {
      const first: string[] = [];
      for (const item of expression.items) {
        const one = computeFirstSet(item, isNullable);
        first.push(...one.first);
        if (!one.nullable) return { nullable: false, first };
      }
      return { nullable: true, first };
    }
  }
}

/** Counts the elements that llama.cpp's parser creates for an expression when it expands repetitions. */
function countElements(expression: Expression): number {
  switch (expression.kind) {
    case "literal":
      return expression.text.length;
    case "class":
      return expression.ranges.length * 2;
    case "rule":
      return 1;
    case "sequence":
      return expression.items.reduce((sum, item) => sum + countElements(item), 0);
    case "choice":
      return expression.options.reduce((sum, option) => sum + 1 + countElements(option), 1);
    default: {
      const { item, min, max } = expression;
      // llama.cpp copies a repeated character class for each repetition. It makes any other repeated item a rule, so
      // the elements of that item count only once.
      const size = item.kind === "class" ? countElements(item) : 1;
      const inside = item.kind === "class" ? 0 : countElements(item);
      return inside + min * size + (max === undefined ? size + 2 : (max - min) * (size + 3));
    }
  }
}
